/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel, capabilities and limits. */
#include "kernel/probe_internal.h"

#include <errno.h>
#include <linux/bpf.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "base/file.h"

/* Inode of the initial user namespace (PROC_USER_INIT_INO of the kernel's proc_ns.h). */
#define USER_NAMESPACE_INIT 0xEFFFFFFDU

/* All maps without an address set, and what an entry costs at most (hash element, IPv6). */
#define MEMLOCK_BASE_MIB    8
#define MEMLOCK_ENTRY_BYTES 160

void pg_probe_kernel(struct pg_probe_report *report)
{
	struct utsname name;

	if (uname(&name) == 0)
		pg_probe_found(report, "%s %s", name.sysname, name.release);
}

void pg_probe_architecture(struct pg_probe_report *report)
{
	struct utsname name = {0};

	if (uname(&name) < 0)
		return;
	pg_probe_found(report, "%s", name.machine);
	if (strcmp(name.machine, "x86_64") != 0 && strcmp(name.machine, "aarch64") != 0)
		pg_probe_lacks(report, PG_PROBE_WARNING,
			       "only x86_64 and aarch64 are tested; run the test suite first");
}

static bool in_initial_user_namespace(void)
{
	struct stat status;

	return stat("/proc/self/ns/user", &status) < 0 || status.st_ino == USER_NAMESPACE_INIT;
}

static bool holds(cap_t caps, cap_value_t cap)
{
	cap_flag_value_t value = CAP_CLEAR;

	return cap_get_flag(caps, cap, CAP_EFFECTIVE, &value) == 0 && value == CAP_SET;
}

void pg_probe_capabilities(struct pg_probe_report *report)
{
	cap_t caps = cap_get_proc();
	bool admin, net, raw, bpf;

	if (!caps) {
		pg_probe_found(report, "cannot be read: %s", strerror(errno));
		pg_probe_lacks(report, PG_PROBE_FAILED, "run as root");
		return;
	}
	admin = holds(caps, CAP_SYS_ADMIN);
	net = holds(caps, CAP_NET_ADMIN);
	raw = holds(caps, CAP_NET_RAW);
	bpf = admin || (holds(caps, CAP_BPF) && holds(caps, CAP_PERFMON));
	cap_free(caps);
	if (!admin || !net || !raw || !bpf) {
		pg_probe_found(report, "missing:%s%s%s%s", admin ? "" : " CAP_SYS_ADMIN",
			       net ? "" : " CAP_NET_ADMIN", raw ? "" : " CAP_NET_RAW",
			       bpf ? "" : " CAP_BPF CAP_PERFMON");
		pg_probe_lacks(report, PG_PROBE_FAILED,
			       "run as root; in a container, with --privileged");
	} else if (!in_initial_user_namespace()) {
		pg_probe_found(report, "held only in a user namespace");
		pg_probe_lacks(report, PG_PROBE_FAILED,
			       "run as root of the host, not in a rootless container or "
			       "user namespace");
	} else {
		pg_probe_found(report, "CAP_SYS_ADMIN (BPF, namespaces), CAP_NET_ADMIN (sockets),"
				       " CAP_NET_RAW (raw packets)");
	}
}

void pg_probe_btf(struct pg_probe_report *report)
{
	static const char path[] = "/sys/kernel/btf/vmlinux";
	struct stat status;

	if (stat(path, &status) == 0 && access(path, R_OK) == 0) {
		pg_probe_found(report, "%s, %lld KiB", path, (long long)status.st_size / 1024);
		return;
	}
	pg_probe_found(report, "%s: %s", path, strerror(errno));
	pg_probe_lacks(report, PG_PROBE_FAILED,
		       "use a kernel built with CONFIG_DEBUG_INFO_BTF=y, such as a "
		       "distribution's; in a container, mount /sys");
}

/* Of no harm to cgroup programs; told because it explains what other tools may miss. */
void pg_probe_lockdown(struct pg_probe_report *report)
{
	pg_autofree char *text = NULL;
	size_t size;

	if (pg_file_read("/sys/kernel/security/lockdown", 4096, &text, &size, NULL) < 0) {
		pg_probe_found(report, "not known (no securityfs, or no lockdown in this kernel)");
		return;
	}
	text[strcspn(text, "\n")] = '\0';
	pg_probe_found(report, "%s", text);
}

static int create_smallest_map(void)
{
	union bpf_attr attr = {
		.map_type = BPF_MAP_TYPE_ARRAY,
		.key_size = 4,
		.value_size = 4,
		.max_entries = 1,
	};

	return syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr)) < 0 ? -errno : 0;
}

/*
 * In a child, because the limit is the process's, and by the plain system call, because libbpf
 * raises the limit by itself.
 */
static int map_without_memlock(void)
{
	const struct rlimit none = {0};
	int status;
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (pid == 0)
		_exit(setrlimit(RLIMIT_MEMLOCK, &none) < 0 ? EINVAL : -create_smallest_map());
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO;
}

void pg_probe_memlock(struct pg_probe_report *report)
{
	struct rlimit limit = {0};
	bool may_raise, may_create;
	int r = create_smallest_map();
	cap_t caps;

	if (r == 0 && map_without_memlock() == 0) {
		pg_probe_found(report, "maps do not count against RLIMIT_MEMLOCK");
		return;
	}
	caps = cap_get_proc();
	may_create = caps && (holds(caps, CAP_SYS_ADMIN) || holds(caps, CAP_BPF));
	may_raise = caps && holds(caps, CAP_SYS_RESOURCE);
	cap_free(caps);
	if (r < 0 && (r != -EPERM || !may_create)) {
		pg_probe_found(report, "not known, since no map can be created: %s", strerror(-r));
		return;
	}
	(void)getrlimit(RLIMIT_MEMLOCK, &limit);
	if (may_raise || limit.rlim_max == RLIM_INFINITY) {
		pg_probe_found(report, "maps count against RLIMIT_MEMLOCK, which is raised");
		return;
	}
	pg_probe_found(report, "maps count against RLIMIT_MEMLOCK, at most %llu KiB here",
		       (unsigned long long)limit.rlim_max / 1024);
	pg_probe_lacks(report,
		       limit.rlim_max >> 20 < MEMLOCK_BASE_MIB ? PG_PROBE_FAILED : PG_PROBE_WARNING,
		       "`ulimit -l unlimited` or CAP_SYS_RESOURCE; needed are %d MiB and %d bytes "
		       "an entry of the policy",
		       MEMLOCK_BASE_MIB, MEMLOCK_ENTRY_BYTES);
}
