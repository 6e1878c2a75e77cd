/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/kcmp.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"
#include "parts.h"

static int open_pidfd(pid_t pid, unsigned int flags)
{
	return (int)syscall(SYS_pidfd_open, pid, flags);
}

static int get_descriptor(int pid_fd, int number)
{
	return (int)syscall(SYS_pidfd_getfd, pid_fd, number, 0);
}

struct socket {
	int domain;
	bool foreign; /* of another network namespace than the process is in */
};

/* The namespace of a socket that this process holds as well; false: it cannot be told. */
static bool read_socket(int fd, const struct stat *namespace, struct socket *ret_socket)
{
	socklen_t size = sizeof(ret_socket->domain);
	pg_autoclose int namespace_fd = -1;
	struct stat status;

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &ret_socket->domain, &size))
		return false;
	ret_socket->foreign = false;
	if (ret_socket->domain == AF_UNIX || ret_socket->domain == AF_VSOCK)
		return true;
	namespace_fd = ioctl(fd, SIOCGSKNS);
	if (namespace_fd < 0 || fstat(namespace_fd, &status))
		return false;
	ret_socket->foreign =
		status.st_ino != namespace->st_ino || status.st_dev != namespace->st_dev;
	return true;
}

/* One that is connected to a runtime's, whether or not that is mounted any more. */
static void look_at_peer(struct pg_inspection *inspection, int fd)
{
	const struct pg_host_places *places = inspection->places;
	struct sockaddr_un peer = {0};
	socklen_t size = sizeof(peer);
	bool known;

	if (getpeername(fd, (struct sockaddr *)&peer, &size) || peer.sun_path[0] != '/')
		return;
	peer.sun_path[sizeof(peer.sun_path) - 1] = '\0';
	known = pg_is_runtime_socket(peer.sun_path);
	for (size_t i = 0; places && i < places->count && !known; i++)
		known = places->items[i].id == PG_EXPOSURE_RUNTIME_SOCKET &&
			strcmp(places->items[i].path, peer.sun_path) == 0;
	if (known)
		pg_exposures_add(inspection->found, PG_EXPOSURE_RUNTIME_SOCKET, inspection->member,
				 "a process of %s is connected to %s", inspection->name,
				 peer.sun_path);
}

static const char *name_of(int domain)
{
	switch (domain) {
	case AF_INET:
		return "an IPv4";
	case AF_INET6:
		return "an IPv6";
	case AF_PACKET:
		return "a packet";
	case AF_XDP:
		return "an AF_XDP";
	default:
		return "a";
	}
}

static void judge(struct pg_inspection *inspection, const struct socket *socket)
{
	const bool packet = socket->domain == AF_PACKET || socket->domain == AF_XDP;
	const enum pg_exposure_id id =
		packet ? PG_EXPOSURE_PACKET_SOCKET : PG_EXPOSURE_FOREIGN_SOCKET;

	if (socket->domain == AF_VSOCK)
		pg_exposures_add(inspection->found, PG_EXPOSURE_VSOCK_SOCKET, inspection->member,
				 "a process of %s has an AF_VSOCK socket open", inspection->name);
	/* Netlink and other families send nothing. */
	else if (socket->foreign &&
		 (packet || socket->domain == AF_INET || socket->domain == AF_INET6))
		pg_exposures_add(inspection->found, id, inspection->member,
				 "a process of %s has %s socket open that is of another network"
				 " namespace: what it sends is judged by nothing",
				 inspection->name, name_of(socket->domain));
}

static void look_at(struct pg_inspection *inspection, const struct pg_process *process,
		    const struct stat *namespace, int pid_fd, int number)
{
	pg_autoclose int fd = get_descriptor(pid_fd, number);
	struct socket socket;

	if (fd >= 0 && read_socket(fd, namespace, &socket)) {
		judge(inspection, &socket);
		if (socket.domain == AF_UNIX && !process->of_host)
			look_at_peer(inspection, fd);
	} else if (fd >= 0 || (errno != EBADF && errno != ESRCH)) {
		pg_exposures_add(inspection->found, PG_EXPOSURE_NOT_INSPECTED, inspection->member,
				 "a socket of %s cannot be told", inspection->name);
	}
}

static bool is_socket(int dir_fd, const char *name)
{
	static const char prefix[] = "socket:";
	char target[sizeof(prefix)];
	const ssize_t size = readlinkat(dir_fd, name, target, sizeof(target));

	return size >= (ssize_t)strlen(prefix) && memcmp(target, prefix, strlen(prefix)) == 0;
}

/* path: of the directory of the table, below that of the process. */
static void inspect_table(struct pg_inspection *inspection, const struct pg_process *process,
			  const struct stat *namespace, const char *path, int pid_fd)
{
	pg_autoclose int dir_fd =
		openat(process->proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	pg_autoclosedir DIR *dir = dir_fd < 0 ? NULL : pg_dir_reopen(dir_fd);
	const struct dirent *entry;

	if (!dir || pid_fd < 0) {
		/* Threads come and go. */
		if (faccessat(process->proc_fd, path, F_OK, 0) == 0)
			pg_exposures_add(inspection->found, PG_EXPOSURE_NOT_INSPECTED,
					 inspection->member, "what %s has open cannot be told",
					 inspection->name);
		return;
	}
	while ((entry = readdir(dir))) {
		if (*entry->d_name < '0' || *entry->d_name > '9' ||
		    !is_socket(dir_fd, entry->d_name))
			continue;
		if (inspection->descriptors++ < PG_INSPECT_DESCRIPTORS_MAX) {
			look_at(inspection, process, namespace, pid_fd,
				(int)strtol(entry->d_name, NULL, 10));
			continue;
		}
		pg_exposures_add(inspection->found, PG_EXPOSURE_NOT_INSPECTED, inspection->member,
				 "%s has more than %d sockets: the others were not looked at",
				 inspection->name, PG_INSPECT_DESCRIPTORS_MAX);
		return;
	}
}

/* Whether the thread has let go of the table that the process has (unshare(CLONE_FILES)). A kernel
 * without kcmp() does not tell. */
static bool has_own_table(pid_t process, pid_t thread)
{
	return syscall(SYS_kcmp, process, thread, KCMP_FILES, 0, 0) > 0;
}

/* Before Linux 6.9 nobody gets at what such a thread has. */
static void inspect_threads(struct pg_inspection *inspection, const struct pg_process *process,
			    const struct stat *namespace)
{
	pg_autoclose int tasks_fd =
		openat(process->proc_fd, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	pg_autoclosedir DIR *tasks = tasks_fd < 0 ? NULL : pg_dir_reopen(tasks_fd);
	const struct dirent *entry;

	while (tasks && (entry = readdir(tasks))) {
		const pid_t thread = (pid_t)strtol(entry->d_name, NULL, 10);
		char path[sizeof("task//fd") + sizeof(entry->d_name)];

		if (thread <= 0 || thread == process->pid || !has_own_table(process->pid, thread))
			continue;
		pg_autoclose int pid_fd = open_pidfd(thread, PIDFD_THREAD);

		snprintf(path, sizeof(path), "task/%s/fd", entry->d_name);
		inspect_table(inspection, process, namespace, path, pid_fd);
	}
}

void pg_inspect_descriptors(struct pg_inspection *inspection, const struct pg_process *process)
{
	pg_autoclose int pid_fd = open_pidfd(process->pid, 0);
	struct stat namespace;

	/* Of a process whose first thread has ended it is another. */
	if (pid_fd < 0)
		pid_fd = open_pidfd(process->pid, PIDFD_THREAD);
	if (fstatat(process->proc_fd, "ns/net", &namespace, 0))
		return;
	inspect_table(inspection, process, &namespace, "fd", pid_fd);
	inspect_threads(inspection, process, &namespace);
}
