/* SPDX-License-Identifier: Apache-2.0 */
#include "exec.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <exec.skel.h>

#include "begun.h"
#include "kernel_internal.h"
#include "pins.h"
#include "probe_internal.h"

struct pg_exec_watch {
	struct exec_bpf *skeleton;
	struct bpf_link *link;
};

/* Links of this kind cannot be given another program: the new one is pinned by the other name
 * before the old one goes. */
static const char *const names[] = {"+exec-0", "+exec-1"};

void pg_exec_watch_free(struct pg_exec_watch *watch)
{
	if (!watch)
		return;
	bpf_link__destroy(watch->link);
	exec_bpf__destroy(watch->skeleton);
	free(watch);
}

static void free_watch(struct pg_exec_watch **watch)
{
	pg_exec_watch_free(*watch);
}

static int read_namespace(const char *path, uint32_t *ret_number, struct pg_error *err)
{
	struct stat status;

	if (stat(path, &status))
		return pg_fail_errno(err, -errno, "reading %s", path);
	*ret_number = (uint32_t)status.st_ino;
	return 0;
}

static int open_program(struct exec_bpf **ret_skeleton, struct pg_error *err)
{
	struct exec_bpf *skeleton = exec_bpf__open();
	uint32_t pids = 0, net = 0;
	int error;

	if (!skeleton)
		return pg_fail_errno(err, -errno, "opening the BPF object");
	error = read_namespace("/proc/self/ns/pid", &pids, err);
	if (!error)
		error = read_namespace("/proc/self/ns/net", &net, err);
	if (error) {
		exec_bpf__destroy(skeleton);
		return error;
	}
	skeleton->rodata->pg_pid_namespace = pids;
	skeleton->rodata->pg_net_namespace = net;
	*ret_skeleton = skeleton;
	return 0;
}

static int share(struct bpf_map *map, const struct bpf_map *with, struct pg_error *err)
{
	int error = bpf_map__reuse_fd(map, bpf_map__fd(with));

	return error ? pg_fail_errno(err, error, "sharing the BPF map %s", bpf_map__name(map)) : 0;
}

static int load(struct pg_exec_watch *watch, const struct pg_kernel *kernel, struct pg_error *err)
{
	const struct phasegate_bpf *with = kernel->skeleton;
	int error = open_program(&watch->skeleton, err);

	if (!error)
		error = share(watch->skeleton->maps.pg_members, with->maps.pg_members, err);
	if (!error)
		error = share(watch->skeleton->maps.pg_events, with->maps.pg_events, err);
	if (!error)
		error = share(watch->skeleton->maps.pg_begun, with->maps.pg_begun, err);
	if (!error)
		error = share(watch->skeleton->maps.pg_host_ends, with->maps.pg_host_ends, err);
	if (error)
		return error;
	error = exec_bpf__load(watch->skeleton);
	if (error)
		return pg_fail_errno(err, error, "loading the program that sees what is executed");
	watch->link = bpf_program__attach(watch->skeleton->progs.pg_exec);
	if (!watch->link)
		return pg_fail_errno(err, -errno,
				     "attaching the program that sees what is executed");
	return 0;
}

static int unpin(const char *pins, size_t which, struct pg_error *err)
{
	char path[PATH_MAX];
	int error = pg_pins_join(path, pins, names[which], err);

	if (!error && unlink(path) && errno != ENOENT)
		error = pg_fail_errno(err, -errno, "removing the pin %s", path);
	return error;
}

/* A process that was killed here has left both: either is in force. */
static int pin(const struct pg_exec_watch *watch, const char *pins, struct pg_error *err)
{
	char path[PATH_MAX];
	int error = pg_pins_join(path, pins, names[0], err);
	const size_t which = error || access(path, F_OK) ? 0 : 1;

	if (!error)
		error = unpin(pins, which, err);
	if (!error)
		error = pg_pins_join(path, pins, names[which], err);
	if (!error && bpf_obj_pin(bpf_link__fd(watch->link), path))
		error = pg_fail_errno(err, -errno, "pinning %s", path);
	return error ? error : unpin(pins, !which, err);
}

int pg_exec_watch_start(struct pg_kernel *kernel, const char *pins,
			struct pg_exec_watch **ret_watch, struct pg_error *err)
{
	PG_CLEANUP(free_watch) struct pg_exec_watch *watch = calloc(1, sizeof(*watch));
	int error;

	if (!watch)
		return pg_fail(err, -ENOMEM, "not enough memory to see what is executed");
	error = load(watch, kernel, err);
	if (!error && pins)
		error = pin(watch, pins, err);
	if (!error)
		error = pg_begun_start(kernel, err);
	if (error)
		return error;
	*ret_watch = PG_TAKE_PTR(watch);
	return 0;
}

int pg_exec_watch_unpin(const char *pins, struct pg_error *err)
{
	int error = 0;

	for (size_t i = 0; i < PG_ARRAY_SIZE(names) && !error; i++)
		error = unpin(pins, i, err);
	return error;
}

void pg_probe_exec(struct pg_probe_report *report)
{
	struct exec_bpf *skeleton = NULL;
	struct bpf_link *link = NULL;
	struct pg_error err = {};
	int error = open_program(&skeleton, &err);

	if (!error)
		error = exec_bpf__load(skeleton);
	if (!error && !(link = bpf_program__attach(skeleton->progs.pg_exec)))
		error = -errno;
	if (!error) {
		pg_probe_found(report, "programs can see what is executed");
	} else {
		pg_probe_found(report, "programs cannot see what is executed: %s",
			       strerror(-error));
		pg_probe_lacks(report, PG_PROBE_WARNING, "%s",
			       error == -EPERM ? "run as root"
					       : "what is started in an Environment with rights"
						 " that are refused is only told of");
	}
	bpf_link__destroy(link);
	exec_bpf__destroy(skeleton);
}
