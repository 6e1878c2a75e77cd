/* SPDX-License-Identifier: Apache-2.0 */
/* cgroup2, what interferes with it, and bpffs. */
#include "kernel/probe_internal.h"

#include <errno.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>

#include "base/file.h"
#include "kernel/mountinfo.h"

/* Inode of the initial cgroup namespace (PROC_CGROUP_INIT_INO of the kernel's proc_ns.h). */
#define CGROUP_NAMESPACE_INIT 0xEFFFFFFBU

/* A host with thousands of containers has a megabyte of mounts. */
#define PROC_FILE_MAX (64U << 20)

#define BPFFS_PATH "/sys/fs/bpf"

static bool is_cgroup2(void *userdata, const char *point)
{
	struct statfs status;

	return statfs(point, &status) == 0 && status.f_type == CGROUP2_SUPER_MAGIC;
}

int pg_cgroup2_mount(char **ret_path, struct pg_error *err)
{
	pg_autofree char *text = NULL;
	size_t size;
	int r = pg_file_read("/proc/self/mountinfo", PROC_FILE_MAX, &text, &size, err);

	if (r < 0)
		return r;
	r = pg_mountinfo_find(text, "cgroup2", is_cgroup2, NULL, ret_path);
	if (r == -ENOENT)
		return pg_fail(
			err, r,
			"cgroup2 is not mounted; mount it with `mount -t cgroup2 cgroup2 "
			"/sys/fs/cgroup`, or at another directory if that one is in use; under `ip "
			"netns exec`, which hides it, use `nsenter --net=/run/netns/NAME`");
	if (r < 0)
		return pg_fail_errno(err, r, "search for cgroup2 in /proc/self/mountinfo");
	return 0;
}

void pg_probe_cgroup2(struct pg_probe_report *report)
{
	pg_autofree char *path = NULL;
	struct statvfs status;

	if (pg_cgroup2_mount(&path, NULL) < 0) {
		pg_probe_found(report, "not mounted");
		pg_probe_lacks(report, PG_PROBE_FAILED,
			       "`mount -t cgroup2 cgroup2 /sys/fs/cgroup`, or at another directory "
			       "if that one is in use; `ip netns exec` hides it, `nsenter "
			       "--net=/run/netns/NAME` does not");
	} else if (statvfs(path, &status) < 0 || status.f_flag & ST_RDONLY) {
		pg_probe_found(report, "%s is read-only", path);
		pg_probe_lacks(report, PG_PROBE_FAILED,
			       "run on the host, or `mount -o remount,rw %s`", path);
	} else {
		pg_probe_found(report, "%s, writable", path);
	}
}

void pg_probe_cgroup_namespace(struct pg_probe_report *report)
{
	struct stat status;

	if (stat("/proc/self/ns/cgroup", &status) < 0) {
		pg_probe_found(report, "/proc/self/ns/cgroup: %s", strerror(errno));
		pg_probe_lacks(report, PG_PROBE_FAILED, "mount /proc");
	} else if (status.st_ino != CGROUP_NAMESPACE_INIT) {
		/* Paths and depths of cgroups would not be those that the programs see. */
		pg_probe_found(report, "not the initial one");
		pg_probe_lacks(report, PG_PROBE_FAILED,
			       "run on the host; in a container, with --cgroupns=host");
	} else {
		pg_probe_found(report, "the initial one");
	}
}

/*
 * Before Linux 5.15 a socket had room for its cgroup or for a net_cls/net_prio value, and the first
 * write of such a value on the machine turned cgroup programs off for all sockets made later.
 * Trying that out would do the damage, so this one is decided by the release.
 */
static bool net_cls_interferes(void)
{
	unsigned int major = 0, minor = 0;
	struct utsname name;

	if (uname(&name) < 0 || sscanf(name.release, "%u.%u", &major, &minor) != 2)
		return true;
	return major < 5 || (major == 5 && minor < 15);
}

void pg_probe_net_cls(struct pg_probe_report *report)
{
	pg_autofree char *text = NULL;
	struct pg_error err = {0};
	size_t size;
	bool cls, prio;

	/* It lists the hierarchies of the whole machine, also those mounted elsewhere. */
	if (pg_file_read("/proc/self/cgroup", PROC_FILE_MAX, &text, &size, &err) < 0) {
		pg_probe_found(report, "%s", err.text);
		pg_probe_lacks(report, PG_PROBE_FAILED, "mount /proc");
		return;
	}
	cls = pg_cgroup_v1_has(text, "net_cls");
	prio = pg_cgroup_v1_has(text, "net_prio");
	if (!cls && !prio) {
		pg_probe_found(report, "no net_cls or net_prio hierarchy");
		return;
	}
	pg_probe_found(report, "%s%s%s in use (cgroup v1)", cls ? "net_cls" : "",
		       cls && prio ? " and " : "", prio ? "net_prio" : "");
	if (net_cls_interferes())
		pg_probe_lacks(report, PG_PROBE_FAILED,
			       "a write there turns cgroup programs off before Linux 5.15: boot "
			       "with cgroup_no_v1=net_cls,net_prio or a newer kernel");
}

static bool is_bpffs(void)
{
	struct statfs status;

	return statfs(BPFFS_PATH, &status) == 0 && status.f_type == BPF_FS_MAGIC;
}

void pg_probe_bpffs(struct pg_probe_report *report)
{
	if (is_bpffs()) {
		pg_probe_found(report, "at " BPFFS_PATH);
	} else if (access(BPFFS_PATH, F_OK) == 0) {
		pg_probe_found(report, "not mounted yet; `phasegate run` mounts it at " BPFFS_PATH);
	} else {
		pg_probe_found(report, BPFFS_PATH ": %s", strerror(errno));
		pg_probe_lacks(report, PG_PROBE_FAILED,
			       "mount sysfs at /sys; the kernel needs CONFIG_BPF_SYSCALL=y");
	}
}

int pg_bpffs_ensure(bool *ret_mounted, struct pg_error *err)
{
	if (is_bpffs()) {
		*ret_mounted = false;
		return 0;
	}
	if (mount("bpf", BPFFS_PATH, "bpf", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0700") < 0)
		return pg_fail_errno(err, -errno,
				     "mount of bpffs at " BPFFS_PATH
				     " (needs CAP_SYS_ADMIN and a writable mount namespace)");
	*ret_mounted = true;
	return 0;
}
