/* SPDX-License-Identifier: Apache-2.0 */
#include "inspect.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "parts.h"
#include "pids.h"

#define PROC_FILE_OCTETS 65536

/* Uid: the real one, then the effective one. */
static unsigned int effective_uid(const char *status)
{
	const char *line = strstr(status, "\nUid:");
	unsigned int uid = 0;

	if (!line || sscanf(line, "\nUid: %*u %u", &uid) != 1)
		return 0;
	return uid;
}

/* What it has, what it may get by executing something, and what it hands on. */
static uint64_t capabilities_of(const char *status)
{
	static const char *const fields[] = {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"};
	uint64_t all = 0;

	for (size_t i = 0; i < PG_ARRAY_SIZE(fields); i++) {
		uint64_t one = UINT64_MAX;

		(void)!pg_status_number(status, fields[i], 16, &one);
		all |= one;
	}
	return all;
}

/* A service may have mounts of its own and the host's root directory. So may a container that was
 * given the host's files and changed its root to them, but not the namespaces as well. */
static bool is_of_host(int proc_fd)
{
	static const char *const namespaces[] = {"pid", "ipc", "cgroup"};

	if (!pg_same_root(proc_fd, "1") && !pg_same_root(proc_fd, "self"))
		return false;
	if (pg_same_namespace(proc_fd, "mnt", "1") || pg_same_namespace(proc_fd, "mnt", "self"))
		return true;
	for (size_t i = 0; i < PG_ARRAY_SIZE(namespaces); i++)
		if (!pg_same_namespace(proc_fd, namespaces[i], "1"))
			return false;
	return true;
}

static void close_process(struct pg_process *process)
{
	pg_close_fd(&process->proc_fd);
	free(process->status);
	free(process->mountinfo);
	free(process->cgroups);
}

/* Of those that are not known yet. -EAGAIN: one had ended before it could be looked at. */
static int look_at_threads(int tasks_fd, struct pg_pids *known, uint64_t *all)
{
	pg_autoclosedir DIR *tasks = pg_dir_reopen(tasks_fd);
	const struct dirent *entry;
	int error = 0, missed = 0;

	pg_pids_sort(known);
	while (!error && tasks && (entry = readdir(tasks))) {
		char path[sizeof("/status") + sizeof(entry->d_name)];
		pg_autofree char *status = NULL;
		const pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
		struct pg_error unused = {};
		size_t size;

		if (*entry->d_name == '.' || pg_pids_have(known, tid))
			continue;
		snprintf(path, sizeof(path), "%s/status", entry->d_name);
		if (pg_file_read_at(tasks_fd, path, PROC_FILE_OCTETS, &status, &size, &unused)) {
			missed = -EAGAIN;
			continue;
		}
		*all |= capabilities_of(status);
		error = pg_pids_add(known, tid);
	}
	return error ? error : missed;
}

/* A thread may have more than the first one. */
static int add_capabilities_of_threads(struct pg_process *process)
{
	pg_autoclose int tasks_fd =
		openat(process->proc_fd, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	pg_autopids struct pg_pids known = {};
	int error = tasks_fd < 0 ? 0 : -EAGAIN;

	for (int i = 0; i < PG_INSPECT_LISTS_MAX && error == -EAGAIN; i++)
		error = look_at_threads(tasks_fd, &known, &process->capabilities);
	return error;
}

/* One that is about to end has no root directory before it has no status, and would pass for a
 * container's. */
static bool has_root(const struct pg_process *process)
{
	char octet;

	if (readlinkat(process->proc_fd, "root", &octet, sizeof(octet)) > 0)
		return true;
	return errno != ENOENT && faccessat(process->proc_fd, "status", F_OK, 0) == 0;
}

/* -ESRCH: it has ended. */
static int open_process(pid_t pid, struct pg_process *process)
{
	struct pg_error unused = {};
	char path[32];
	size_t size;
	int error;

	pid = pg_process_living(pid);
	*process = (struct pg_process){.pid = pid, .proc_fd = -1};
	snprintf(path, sizeof(path), "/proc/%d", pid);
	process->proc_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	error = process->proc_fd < 0 ? -errno
				     : pg_file_read_at(process->proc_fd, "status", PROC_FILE_OCTETS,
						       &process->status, &size, &unused);
	if (error)
		return error == -ENOENT ? -ESRCH : error;
	process->uid = effective_uid(process->status);
	process->capabilities = capabilities_of(process->status);
	process->own_user = pg_same_namespace(process->proc_fd, "user", "self");
	process->of_host = is_of_host(process->proc_fd);
	if (!has_root(process))
		return -ESRCH;
	return add_capabilities_of_threads(process);
}

bool pg_process_is_alive(const struct pg_process *process)
{
	struct stat unused;

	return fstatat(process->proc_fd, "ns/net", &unused, 0) == 0;
}

/* A process of the host itself is not held by anything; what it has mounted is beside the point. */
static void inspect_host_process(struct pg_inspection *inspection, const struct pg_process *process)
{
	const uint64_t rights = 1ULL << CAP_SYS_ADMIN | 1ULL << CAP_DAC_OVERRIDE;
	uint64_t permitted = 0;

	if (!process->own_user)
		return;
	(void)!pg_status_number(process->status, "CapPrm", 16, &permitted);
	if (process->uid == 0 || permitted & rights)
		pg_exposures_add(inspection->found, PG_EXPOSURE_HOST_PROCESS, inspection->member,
				 "in %s a process is root on the host, in no container: it can"
				 " leave its cgroup, and with it the policy",
				 inspection->name);
}

/* Processes of one container have the same mounts as a rule. */
static bool is_seen(struct pg_inspection *inspection, const struct pg_process *process)
{
	const size_t room = PG_ARRAY_SIZE(inspection->namespaces);
	struct stat namespace;

	if (fstatat(process->proc_fd, "ns/mnt", &namespace, 0))
		return false;
	for (size_t i = 0; i < room; i++)
		if (inspection->namespaces[i] == namespace.st_ino)
			return true;
	inspection->namespaces[inspection->next_namespace++ % room] = namespace.st_ino;
	return false;
}

static void inspect_place(struct pg_inspection *inspection, struct pg_process *process)
{
	struct pg_error err = {};
	size_t size;

	if (is_seen(inspection, process))
		return;
	if (pg_file_read_at(process->proc_fd, "mountinfo", PG_INSPECT_TEXT_MAX, &process->mountinfo,
			    &size, &err) < 0 ||
	    pg_file_read_at(process->proc_fd, "cgroup", PROC_FILE_OCTETS, &process->cgroups, &size,
			    &err) < 0) {
		if (pg_process_is_alive(process))
			pg_exposures_add(inspection->found, PG_EXPOSURE_NOT_INSPECTED,
					 inspection->member,
					 "what is mounted in %s cannot be told: %s",
					 inspection->name, err.text);
		return;
	}
	pg_inspect_mounts(inspection, process);
	pg_inspect_devices(inspection, process);
}

static void note_filter(struct pg_inspection *inspection, const struct pg_process *process)
{
	uint64_t seccomp = 0;

	inspection->contained = true;
	if (!pg_status_number(process->status, "Seccomp", 10, &seccomp) || seccomp == 0)
		inspection->unfiltered = true;
}

/* A runtime that has its containers in a process of its own; a container may have one by the name.
 */
static void inspect_executable(struct pg_inspection *inspection, const struct pg_process *process)
{
	static const char *const names[] = {"runsc", "containerd-shim-kata", "firecracker",
					    "cloud-hypervisor"};
	char path[PATH_MAX];
	const ssize_t size = readlinkat(process->proc_fd, "exe", path, sizeof(path) - 1);
	const char *name;

	if (size < 0)
		return;
	path[size] = '\0';
	name = strrchr(path, '/');
	for (size_t i = 0; name && i < PG_ARRAY_SIZE(names); i++)
		if (strncmp(name + 1, names[i], strlen(names[i])) == 0)
			pg_inspect_runtime(inspection, name + 1);
}

bool pg_inspect_process(struct pg_inspection *inspection, pid_t pid)
{
	PG_CLEANUP(close_process) struct pg_process process;
	int error;

	error = open_process(pid, &process);
	if (error == -ESRCH)
		return false;
	if (error) {
		pg_exposures_add(inspection->found, PG_EXPOSURE_NOT_INSPECTED, inspection->member,
				 "a process of %s cannot be looked at: %s", inspection->name,
				 strerror(-error));
		return true;
	}
	if (++inspection->processes > PG_INSPECT_PROCESSES_MAX) {
		pg_exposures_add(inspection->found, PG_EXPOSURE_NOT_INSPECTED, inspection->member,
				 "%s has more than %d processes: the others were not looked at",
				 inspection->name, PG_INSPECT_PROCESSES_MAX);
		return true;
	}
	if (process.of_host) {
		inspect_host_process(inspection, &process);
	} else {
		inspection->net_capabilities |= process.capabilities & PG_NET_CAPABILITIES;
		note_filter(inspection, &process);
		inspect_executable(inspection, &process);
		pg_inspect_rights(inspection, &process);
		inspect_place(inspection, &process);
	}
	pg_inspect_descriptors(inspection, &process);
	return true;
}
