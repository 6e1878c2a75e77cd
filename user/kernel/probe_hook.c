/* SPDX-License-Identifier: Apache-2.0 */
/* Each hook, by loading a program for it and attaching that to a scratch cgroup; then whether one
 * really stops a process in there. */
#include "kernel/probe_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <phasegate/abi/hook.h>

struct program_kind {
	enum bpf_prog_type type;
	enum bpf_attach_type attach;
};

static struct program_kind kind_of(enum pg_hook hook)
{
	switch (hook) {
	case PG_HOOK_EGRESS:
		return (struct program_kind){BPF_PROG_TYPE_CGROUP_SKB, BPF_CGROUP_INET_EGRESS};
	case PG_HOOK_INGRESS:
		return (struct program_kind){BPF_PROG_TYPE_CGROUP_SKB, BPF_CGROUP_INET_INGRESS};
	case PG_HOOK_SOCK_OPS:
		return (struct program_kind){BPF_PROG_TYPE_SOCK_OPS, BPF_CGROUP_SOCK_OPS};
	case PG_HOOK_SOCK_CREATE:
		return (struct program_kind){BPF_PROG_TYPE_CGROUP_SOCK,
					     BPF_CGROUP_INET_SOCK_CREATE};
	case PG_HOOK_BIND4:
		return (struct program_kind){BPF_PROG_TYPE_CGROUP_SOCK_ADDR, BPF_CGROUP_INET4_BIND};
	case PG_HOOK_BIND6:
		return (struct program_kind){BPF_PROG_TYPE_CGROUP_SOCK_ADDR, BPF_CGROUP_INET6_BIND};
	case PG_HOOK_CONNECT4:
		return (struct program_kind){BPF_PROG_TYPE_CGROUP_SOCK_ADDR,
					     BPF_CGROUP_INET4_CONNECT};
	case PG_HOOK_CONNECT6:
		return (struct program_kind){BPF_PROG_TYPE_CGROUP_SOCK_ADDR,
					     BPF_CGROUP_INET6_CONNECT};
	case PG_HOOK_SENDMSG4:
		return (struct program_kind){BPF_PROG_TYPE_CGROUP_SOCK_ADDR,
					     BPF_CGROUP_UDP4_SENDMSG};
	case PG_HOOK_SENDMSG6:
		return (struct program_kind){BPF_PROG_TYPE_CGROUP_SOCK_ADDR,
					     BPF_CGROUP_UDP6_SENDMSG};
	case PG_HOOK_RECVMSG4:
		return (struct program_kind){BPF_PROG_TYPE_CGROUP_SOCK_ADDR,
					     BPF_CGROUP_UDP4_RECVMSG};
	case PG_HOOK_RECVMSG6:
		return (struct program_kind){BPF_PROG_TYPE_CGROUP_SOCK_ADDR,
					     BPF_CGROUP_UDP6_RECVMSG};
	case PG_HOOK_GETPEERNAME4:
		return (struct program_kind){BPF_PROG_TYPE_CGROUP_SOCK_ADDR,
					     BPF_CGROUP_INET4_GETPEERNAME};
	case PG_HOOK_GETPEERNAME6:
		return (struct program_kind){BPF_PROG_TYPE_CGROUP_SOCK_ADDR,
					     BPF_CGROUP_INET6_GETPEERNAME};
	case PG_HOOK_SETSOCKOPT:
		return (struct program_kind){BPF_PROG_TYPE_CGROUP_SOCKOPT, BPF_CGROUP_SETSOCKOPT};
	case PG_HOOK_COUNT:
		break;
	}
	return (struct program_kind){0};
}

/* A program that returns the verdict. */
static int load(enum pg_hook hook, int verdict)
{
	LIBBPF_OPTS(bpf_prog_load_opts, options);
	const struct program_kind kind = kind_of(hook);
	const struct bpf_insn code[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = verdict},
		{.code = BPF_JMP | BPF_EXIT},
	};
	int fd;

	options.expected_attach_type = kind.attach;
	fd = bpf_prog_load(kind.type, "pg_probe", "GPL", code, PG_ARRAY_SIZE(code), &options);
	return fd < 0 ? -errno : fd;
}

/* As attach.c does it; it goes with the cgroup. */
static int attach(enum pg_hook hook, int program, const struct pg_scratch *scratch)
{
	return bpf_prog_attach(program, scratch->fd, kind_of(hook).attach, BPF_F_ALLOW_MULTI)
		       ? -errno
		       : 0;
}

static const char *const names[PG_HOOK_COUNT] = {
#define PG_X(symbol, program, flags) "hook." #program,
	PG_HOOKS(PG_X)
#undef PG_X
};

static void probe_hook(struct pg_probe *probe, enum pg_hook hook, const struct pg_scratch *scratch)
{
	struct pg_probe_report report = {.name = names[hook]};
	pg_autoclose int program = load(hook, 1);
	int error;

	if (program < 0) {
		pg_probe_found(&report, "no program can be loaded: %s", strerror(-program));
		pg_probe_lacks(
			&report, PG_PROBE_FAILED,
			program == -EPERM
				? "run as root"
				: "use a kernel with CONFIG_CGROUP_BPF, Linux 5.10 or newer");
	} else if (!scratch) {
		pg_probe_found(&report, "loads; not attached, for lack of a cgroup");
	} else {
		error = attach(hook, program, scratch);
		if (!error) {
			pg_probe_found(&report, "loads and attaches");
		} else {
			pg_probe_found(&report, "cannot be attached: %s", strerror(-error));
			pg_probe_lacks(&report, PG_PROBE_FAILED,
				       error == -EPERM ? "run as root; a program above may also "
							 "forbid others below it (`bpftool cgroup "
							 "tree`)"
						       : "use Linux 5.10 or newer");
		}
	}
	pg_probe_emit(probe, &report);
}

/* Nothing is sent by connect() on a UDP socket. Returns the errno, or 0. */
static int connect_loopback(void)
{
	const struct sockaddr_in name = {
		.sin_family = AF_INET,
		.sin_port = htons(9),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	pg_autoclose int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return errno;
	return connect(fd, (const struct sockaddr *)&name, sizeof(name)) < 0 ? errno : 0;
}

static void judge_run(struct pg_probe_report *report, int inside, int outside)
{
	if (inside != EPERM) {
		pg_probe_found(report, "a program that denies connect() did not stop a process "
				       "in its cgroup");
		pg_probe_lacks(report, PG_PROBE_FAILED,
			       "cgroup programs are off for new sockets: something wrote a "
			       "net_cls/net_prio value before Linux 5.15; restart the machine");
	} else if (outside == EPERM) {
		pg_probe_found(report, "this process itself may not connect, so nothing is proven");
		pg_probe_lacks(report, PG_PROBE_WARNING, "run it from a cgroup without a policy");
	} else {
		pg_probe_found(report, "a denied connect() fails inside a cgroup, not outside");
	}
}

static void probe_enforcement(struct pg_probe *probe, const struct pg_scratch *scratch)
{
	struct pg_probe_report clone = {.name = "clone-into-cgroup"};
	struct pg_probe_report enforcement = {.name = "enforcement"};
	pg_autoclose int program = load(PG_HOOK_CONNECT4, 0);
	const int error = program < 0 ? program : attach(PG_HOOK_CONNECT4, program, scratch);
	int inside, r = pg_scratch_run(scratch, connect_loopback, &inside);

	if (r < 0) {
		pg_probe_found(&clone, "clone3(): %s", strerror(-r));
		pg_probe_lacks(&clone, PG_PROBE_FAILED,
			       "use Linux 5.7 or newer; in a container, a seccomp profile that "
			       "allows clone3");
	} else {
		pg_probe_found(&clone, "a process can be born in a cgroup");
	}
	pg_probe_emit(probe, &clone);
	if (r < 0 || error)
		return;
	judge_run(&enforcement, inside, connect_loopback());
	pg_probe_emit(probe, &enforcement);
}

void pg_probe_hooks(struct pg_probe *probe)
{
	struct pg_probe_report report = {.name = "scratch-cgroup"};
	struct pg_scratch scratch = {.fd = -1};
	struct pg_error err = {0};
	const bool made = pg_scratch_make(&scratch, &err) == 0;

	if (!made) {
		pg_probe_found(&report, "%s", err.text);
		pg_probe_lacks(&report, PG_PROBE_FAILED,
			       "run as root of the host, with cgroup2 mounted and writable");
		pg_probe_emit(probe, &report);
	}
	for (enum pg_hook hook = 0; hook < PG_HOOK_COUNT; hook++)
		probe_hook(probe, hook, made ? &scratch : NULL);
	if (made) {
		probe_enforcement(probe, &scratch);
		pg_probe_link(probe, &scratch);
	}
	pg_scratch_remove(&scratch);
}
