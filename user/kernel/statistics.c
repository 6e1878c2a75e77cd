/* SPDX-License-Identifier: Apache-2.0 */
#include "statistics.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <exec.skel.h>
#include <guard.skel.h>
#include <links.skel.h>
#include <phasegate.skel.h>

#include "base/cleanup.h"
#include "base/vector.h"
#include "statistics_internal.h"

int pg_statistics_start(int *ret_fd, struct pg_error *err)
{
	const int fd = bpf_enable_stats(BPF_STATS_RUN_TIME);

	if (fd < 0)
		return pg_fail_errno(err, -errno, "having the kernel take the time of programs%s",
				     errno == EPERM ? " (run it as root)" : "");
	*ret_fd = fd;
	return 0;
}

static void known_close(struct pg_known *known)
{
	phasegate_bpf__destroy(known->phasegate);
	links_bpf__destroy(known->links);
	guard_bpf__destroy(known->guard);
	exec_bpf__destroy(known->exec);
}

static int known_open(struct pg_known *ret_known, struct pg_error *err)
{
	ret_known->phasegate = phasegate_bpf__open();
	ret_known->links = links_bpf__open();
	ret_known->guard = guard_bpf__open();
	ret_known->exec = exec_bpf__open();
	if (!ret_known->phasegate || !ret_known->links || !ret_known->guard || !ret_known->exec)
		return pg_fail_errno(err, -errno, "opening the BPF objects");
	return 0;
}

static const char *hook_of(const struct pg_known *known, const char *name)
{
	const struct bpf_object *const objects[] = {known->phasegate->obj, known->links->obj,
						    known->guard->obj, known->exec->obj};
	struct bpf_program *program;

	for (size_t i = 0; i < PG_ARRAY_SIZE(objects); i++)
		bpf_object__for_each_program(program, objects[i])
		{
			if (!strcmp(bpf_program__name(program), name))
				return bpf_program__section_name(program);
		}
	return NULL;
}

/* The kernel cuts a program's name after 15 characters, and its BTF has it whole. */
static void read_name(int fd, const struct bpf_prog_info *info,
		      char name[static PG_STATISTICS_NAME])
{
	struct bpf_func_info function = {};
	struct bpf_prog_info again = {
		.nr_func_info = 1,
		.func_info_rec_size = sizeof(function),
		.func_info = (uintptr_t)&function,
	};
	struct btf *btf = info->btf_id ? btf__load_from_kernel_by_id(info->btf_id) : NULL;
	const struct btf_type *type = NULL;
	__u32 size = sizeof(again);

	if (btf && !bpf_obj_get_info_by_fd(fd, &again, &size) && again.nr_func_info)
		type = btf__type_by_id(btf, function.type_id);
	snprintf(name, PG_STATISTICS_NAME, "%s",
		 type ? btf__name_by_offset(btf, type->name_off) : info->name);
	btf__free(btf);
}

uint64_t pg_statistics_memory(int fd)
{
	pg_autofclose FILE *file = NULL;
	char path[64], line[128];
	uint64_t octets = 0;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "memlock: %" SCNu64, &octets) == 1)
			break;
	return octets;
}

/* -ENOENT: it is none of Phasegate's, or gone. */
static int read_program(const struct pg_known *known, uint32_t id, struct pg_program_info *ret)
{
	pg_autoclose int fd = bpf_prog_get_fd_by_id(id);
	struct bpf_prog_info info = {};
	__u32 size = sizeof(info);
	const char *hook;

	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &size))
		return -errno;
	/* Of others nothing more is asked. */
	if (strncmp(info.name, "pg_", 3) != 0)
		return -ENOENT;
	*ret = (struct pg_program_info){
		.id = id,
		.runs = info.run_cnt,
		.run_ns = info.run_time_ns,
		.verified = info.verified_insns,
		.translated = info.xlated_prog_len,
		.jited = info.jited_prog_len,
		.memory = pg_statistics_memory(fd),
	};
	read_name(fd, &info, ret->name);
	hook = hook_of(known, ret->name);
	if (!hook)
		return -ENOENT;
	snprintf(ret->hook, sizeof(ret->hook), "%s", hook);
	return 0;
}

static int read_programs(const struct pg_known *known, struct pg_statistics *statistics,
			 struct pg_error *err)
{
	size_t room = 0;
	uint32_t id = 0;
	int error = 0;

	while (!error && !bpf_prog_get_next_id(id, &id)) {
		struct pg_program_info program;

		error = read_program(known, id, &program);
		if (error == -ENOENT) {
			error = 0;
			continue;
		}
		if (error)
			return pg_fail_errno(err, error, "reading the BPF program %u", id);
		error = pg_vector_grow(&statistics->programs, statistics->program_count, &room,
				       sizeof(program));
		if (error)
			return pg_fail_errno(err, error, "reading the BPF programs");
		statistics->programs[statistics->program_count++] = program;
	}
	if (!error && errno != ENOENT)
		return pg_fail_errno(err, -errno, "listing the BPF programs%s",
				     errno == EPERM ? " (run it as root)" : "");
	return error;
}

int pg_statistics_read(const char *pins, struct pg_statistics *ret_statistics, struct pg_error *err)
{
	PG_CLEANUP(known_close) struct pg_known known = {};
	int error = known_open(&known, err);

	*ret_statistics = (struct pg_statistics){0};
	if (!error)
		error = read_programs(&known, ret_statistics, err);
	if (!error)
		error = pg_statistics_read_maps(&known, ret_statistics, err);
	return error ? error : pg_statistics_read_guard(pins, ret_statistics, err);
}

void pg_statistics_clear(struct pg_statistics *statistics)
{
	free(statistics->programs);
	free(statistics->maps);
	free(statistics->places);
	*statistics = (struct pg_statistics){0};
}
