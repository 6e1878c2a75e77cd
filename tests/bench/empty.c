/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that allow at once, at the hooks that an Environment has: what the kernel itself takes.
 */
#include "contenders.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/pkt_cls.h>
#include <string.h>
#include <sys/stat.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <phasegate/abi/hook.h>

#include "kernel/attach.h"
#include "kernel/kernel_internal.h"

#define EMPTY "empty"

/* Their links end with this process. */
static int load(enum bpf_prog_type type, enum bpf_attach_type hook, int result)
{
	const struct bpf_insn instructions[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = result},
		{.code = BPF_JMP | BPF_EXIT},
	};
	LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = hook);
	const int fd = bpf_prog_load(type, EMPTY, "GPL", instructions, PG_ARRAY_SIZE(instructions),
				     &options);

	if (fd < 0)
		fail("loading an empty program: %s", strerror(errno));
	return fd;
}

static void attach(const struct bpf_program *like, int cgroup)
{
	const enum bpf_attach_type hook = bpf_program__expected_attach_type(like);
	pg_autoclose int fd = load(bpf_program__type(like), hook, 1);

	if (bpf_link_create(fd, cgroup, hook, NULL) < 0)
		fail("attaching an empty program in place of %s: %s", bpf_program__name(like),
		     strerror(errno));
}

static void attach_all(const struct machine *machine, int cgroup)
{
	const struct pg_kernel *kernel = pg_host_kernel(machine->host);
	const struct bpf_program *const programs[PG_HOOK_COUNT] = {
#define PG_X(symbol, program, flags) kernel->skeleton->progs.program,
		PG_HOOKS(PG_X)
#undef PG_X
	};

	for (size_t i = 0; i < PG_HOOK_COUNT; i++)
		if (!(pg_hook_flags((enum pg_hook)i) & PG_HOOK_FOR_DNS))
			attach(programs[i], cgroup);
}

static void path_of(const struct machine *machine, char *path, size_t size)
{
	snprintf(path, size, "%s/%s", machine->plain_path, EMPTY);
}

int empty_cgroup_open(const struct machine *machine)
{
	char path[sizeof(machine->plain_path) + 16];
	int fd;

	path_of(machine, path, sizeof(path));
	if (mkdir(path, 0755) < 0)
		fail("making the cgroup %s: %s", path, strerror(errno));
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		fail("opening the cgroup %s: %s", path, strerror(errno));
	attach_all(machine, fd);
	return fd;
}

void empty_cgroup_close(const struct machine *machine, int fd)
{
	char path[sizeof(machine->plain_path) + 16];

	path_of(machine, path, sizeof(path));
	close(fd);
	rmdir(path);
}

/* In place of that of an earlier run, which nobody takes away. */
static void attach_at(unsigned int ifindex, enum bpf_tc_attach_point point, int program)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = (int)ifindex, .attach_point = point);
	LIBBPF_OPTS(bpf_tc_opts, options, .prog_fd = program, .handle = 1, .priority = 1,
		    .flags = BPF_TC_F_REPLACE);
	const int error = bpf_tc_attach(&hook, &options);

	if (error)
		fail("attaching an empty program to a veth: %s", strerror(-error));
}

void empty_attach_veth(unsigned int ifindex)
{
	LIBBPF_OPTS(bpf_tc_hook, both, .ifindex = (int)ifindex,
		    .attach_point = (enum bpf_tc_attach_point)(BPF_TC_INGRESS | BPF_TC_EGRESS));
	pg_autoclose int program = load(BPF_PROG_TYPE_SCHED_CLS, 0, TC_ACT_UNSPEC);
	const int error = bpf_tc_hook_create(&both);

	if (error && error != -EEXIST)
		fail("making the clsact queue of a veth: %s", strerror(-error));
	attach_at(ifindex, BPF_TC_INGRESS, program);
	attach_at(ifindex, BPF_TC_EGRESS, program);
}
