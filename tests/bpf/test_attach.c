// SPDX-License-Identifier: Apache-2.0
/*
 * What is attached at a cgroup: found again whoever attached it, replaced without a second one,
 * taken off by its owners only, and nobody else's with it.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "base/cleanup.h"
#include "check.h"
#include "kernel/attach.h"
#include "kernel/attached.h"
#include "lab.h"
#include "place.h"

#define NOBODY 65534

struct bench {
	struct check check;
	struct place place;
	struct pg_kernel *kernel, *other; /* with maps of its own */
	int cgroup;
	int stranger; /* a program that is not ours, whatever its name */
	struct pg_error err;
};

static int load_stranger(void)
{
	LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = BPF_CGROUP_INET_EGRESS);
	const struct bpf_insn code[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 1},
		{.code = BPF_JMP | BPF_EXIT},
	};

	return bpf_prog_load(BPF_PROG_TYPE_CGROUP_SKB, "pg_egress", "GPL", code,
			     PG_ARRAY_SIZE(code), &options);
}

static uint32_t count(const struct bench *bench, enum pg_hook hook, uint32_t *ret_last)
{
	struct pg_attached_ids ids = {};

	if (pg_attached_ids(bench->cgroup, pg_hook_type(hook), &ids))
		return UINT32_MAX;
	if (ret_last)
		*ret_last = ids.count ? ids.items[ids.count - 1] : 0;
	return ids.count;
}

/* The program that was attached first. */
static int open_first(const struct bench *bench, enum pg_hook hook)
{
	struct pg_attached_ids ids = {};

	return pg_attached_ids(bench->cgroup, pg_hook_type(hook), &ids) || !ids.count
		       ? -1
		       : bpf_prog_get_fd_by_id(ids.items[0]);
}

static bool take_off(const struct bench *bench, enum pg_hook hook)
{
	pg_autoclose int program = open_first(bench, hook);

	return program >= 0 && !bpf_prog_detach2(program, bench->cgroup, pg_hook_type(hook));
}

static void check_found(struct bench *bench)
{
	struct check *check = &bench->check;
	struct pg_error *err = &bench->err;
	pg_hook_set hooks = 0;

	CHECK(check, pg_attached(bench->kernel, bench->cgroup, &hooks, err) == -ENOENT, "nothing");
	CHECK(check, !pg_attach_all(bench->kernel, bench->cgroup, pg_hooks(false), err), "%s",
	      err->text);
	CHECK(check,
	      !pg_attached(bench->kernel, bench->cgroup, &hooks, err) && hooks == pg_hooks(false),
	      "hooks %#x: %s", hooks, err->text);
	CHECK(check, !pg_attached(NULL, bench->cgroup, &hooks, err) && hooks == pg_hooks(false),
	      "by whatever maps: %#x, %s", hooks, err->text);
	CHECK(check, pg_attached(bench->other, bench->cgroup, &hooks, err) == -ESTALE,
	      "with maps of another: %s", err->text);
	CHECK(check, take_off(bench, PG_HOOK_CONNECT4), "%s", strerror(errno));
	CHECK(check,
	      pg_attached(bench->kernel, bench->cgroup, &hooks, err) == -ENOENT &&
		      strstr(err->text, "pg_connect4"),
	      "one is missing: %s", err->text);
	CHECK(check, !pg_attach_all(bench->kernel, bench->cgroup, pg_hooks(true), err), "%s",
	      err->text);
	CHECK(check,
	      !pg_attached(bench->kernel, bench->cgroup, &hooks, err) && hooks == pg_hooks(true),
	      "hooks %#x: %s", hooks, err->text);
	check_group(check, "what is attached is found again");
}

/* The place among others' programs stays, and nothing runs twice. */
static void check_replaced(struct bench *bench)
{
	struct check *check = &bench->check;
	uint32_t last, still;

	CHECK(check,
	      !bpf_prog_attach(bench->stranger, bench->cgroup, BPF_CGROUP_INET_EGRESS,
			       BPF_F_ALLOW_MULTI),
	      "%s", strerror(errno));
	CHECK(check, count(bench, PG_HOOK_EGRESS, &last) == 2, "the stranger is not there");
	for (unsigned int i = 0; i < 2; i++)
		CHECK(check,
		      !pg_attach_all(bench->kernel, bench->cgroup, pg_hooks(true), &bench->err),
		      "%s", bench->err.text);
	CHECK(check, count(bench, PG_HOOK_EGRESS, &still) == 2 && still == last, "another order");
	CHECK(check, count(bench, PG_HOOK_SETSOCKOPT, NULL) == 1, "twice");
	check_group(check, "a program takes the place of an earlier owner's");
}

static int raw_detach(int cgroup, int program)
{
	union bpf_attr attr = {
		.target_fd = (__u32)cgroup,
		.attach_bpf_fd = (__u32)program,
		.attach_type = BPF_CGROUP_INET_EGRESS,
	};

	return syscall(SYS_bpf, BPF_PROG_DETACH, &attr, sizeof(attr)) ? errno : 0;
}

/* In the child: bits of what has worked, with nothing but the cgroup's directory and a program of
 * the same type that somebody has handed over. */
static int try_all(const struct bench *bench, uint32_t ours)
{
	int worked = 0;

	if (setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY))
		return 128;
	worked |= !raw_detach(bench->cgroup, -1) ? 1 : 0;
	worked |= !raw_detach(bench->cgroup, 0) ? 2 : 0;
	worked |= !raw_detach(bench->cgroup, bench->stranger) ? 4 : 0;
	worked |= bpf_prog_get_fd_by_id(ours) >= 0 ? 8 : 0;
	worked |= !bpf_prog_attach(bench->stranger, bench->cgroup, BPF_CGROUP_INET_EGRESS, 0) ? 16
											      : 0;
	worked |= !bpf_prog_attach(bench->stranger, bench->cgroup, BPF_CGROUP_INET_EGRESS,
				   BPF_F_ALLOW_OVERRIDE)
			  ? 32
			  : 0;
	return worked;
}

static void check_others(struct bench *bench)
{
	struct check *check = &bench->check;
	uint32_t ours = 0;
	int status = -1;
	pid_t pid;

	CHECK(check, !raw_detach(bench->cgroup, bench->stranger), "its owner: %s", strerror(errno));
	CHECK(check, count(bench, PG_HOOK_EGRESS, &ours) == 1, "ours is not alone");
	pid = fork();
	if (!pid)
		_exit(try_all(bench, ours));
	CHECK(check, pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status), "%s",
	      strerror(errno));
	CHECK(check, !WEXITSTATUS(status), "what has worked: %#x", WEXITSTATUS(status));
	CHECK(check, count(bench, PG_HOOK_EGRESS, &ours) == 1, "it is gone");
	check_group(check, "nobody takes it off without the program");
}

static void check_detached(struct bench *bench)
{
	struct check *check = &bench->check;
	const char *inner = bench->place.inner;
	pg_autoclose int gone = open(inner, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct pg_error *err = &bench->err;

	CHECK(check,
	      !bpf_prog_attach(bench->stranger, bench->cgroup, BPF_CGROUP_INET_EGRESS,
			       BPF_F_ALLOW_MULTI),
	      "%s", strerror(errno));
	/* Of two owners, as after one that nobody could adopt. */
	CHECK(check, !pg_attach_all(bench->other, bench->cgroup, pg_hooks(false), err), "%s",
	      err->text);
	CHECK(check, count(bench, PG_HOOK_EGRESS, NULL) == 3, "not beside each other");
	CHECK(check, !pg_detach(bench->cgroup, err), "%s", err->text);
	for (size_t i = 0; i < PG_HOOK_COUNT; i++)
		CHECK(check, count(bench, (enum pg_hook)i, NULL) == (i == PG_HOOK_EGRESS ? 1 : 0),
		      "%s", pg_hook_name((enum pg_hook)i));
	CHECK(check, !pg_detach(bench->cgroup, err), "nothing: %s", err->text);
	CHECK(check, gone >= 0 && !rmdir(inner), "%s", strerror(errno));
	CHECK(check, !pg_detach(gone, err), "a cgroup that is gone: %s", err->text);
	CHECK(check, !mkdir(inner, 0755), "%s", strerror(errno));
	check_group(check, "ours are taken off, and nobody else's");
}

int main(void)
{
	struct bench bench = {.cgroup = -1, .stranger = -1};
	struct lab lab;

	lab_open(&lab); /* for its namespace, and to skip without root */
	if (!place_make(&bench.place))
		return EXIT_FAILURE;
	bench.cgroup = open(bench.place.outer, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bench.stranger = load_stranger();
	if (CHECK(&bench.check,
		  bench.cgroup >= 0 && bench.stranger >= 0 &&
			  !pg_kernel_open(NULL, &bench.kernel, &bench.err) &&
			  !pg_kernel_open(NULL, &bench.other, &bench.err),
		  "%s", bench.err.text)) {
		check_found(&bench);
		check_replaced(&bench);
		check_others(&bench);
		check_detached(&bench);
	}
	pg_kernel_free(bench.kernel);
	pg_kernel_free(bench.other);
	pg_close_fd(&bench.stranger);
	pg_close_fd(&bench.cgroup);
	place_remove(&bench.place);
	lab_close(&lab);
	return check_end(&bench.check);
}
