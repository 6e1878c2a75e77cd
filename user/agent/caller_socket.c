/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Before Linux 6.5 the kernel tells of a connection only the number of the process that made it,
 * which may be another process's by now. That one does not have the other end of the connection.
 */
#include "caller.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libmnl/libmnl.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static int take_peer(const struct nlmsghdr *message, void *userdata)
{
	uint32_t *inode = userdata;
	const struct nlattr *attribute;

	mnl_attr_for_each (attribute, message, sizeof(struct unix_diag_msg))
		if (mnl_attr_get_type(attribute) == UNIX_DIAG_PEER)
			*inode = mnl_attr_get_u32(attribute);
	return MNL_CB_OK;
}

static int ask(struct mnl_socket *diag, uint32_t own, uint32_t *ret_inode)
{
	char buffer[8192];
	struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);
	struct unix_diag_req *request;
	ssize_t size;

	message->nlmsg_type = SOCK_DIAG_BY_FAMILY;
	message->nlmsg_flags = NLM_F_REQUEST;
	message->nlmsg_seq = 1;
	request = mnl_nlmsg_put_extra_header(message, sizeof(*request));
	request->sdiag_family = AF_UNIX;
	request->udiag_states = UINT32_MAX;
	request->udiag_ino = own;
	request->udiag_show = UDIAG_SHOW_PEER;
	request->udiag_cookie[0] = request->udiag_cookie[1] = UINT32_MAX;
	if (mnl_socket_sendto(diag, message, message->nlmsg_len) < 0)
		return -errno;
	size = mnl_socket_recvfrom(diag, buffer, sizeof(buffer));
	if (size < 0 || mnl_cb_run(buffer, (size_t)size, 1, mnl_socket_get_portid(diag), take_peer,
				   ret_inode) < 0)
		return -errno;
	return *ret_inode ? 0 : -ENOTCONN;
}

static int find_peer(int socket_fd, uint32_t *ret_inode)
{
	struct mnl_socket *diag;
	struct stat own;
	int error;

	*ret_inode = 0;
	if (fstat(socket_fd, &own))
		return -errno;
	diag = mnl_socket_open2(NETLINK_SOCK_DIAG, SOCK_CLOEXEC);
	if (!diag)
		return -errno;
	error = mnl_socket_bind(diag, 0, MNL_SOCKET_AUTOPID) ? -errno : 0;
	if (!error)
		error = ask(diag, (uint32_t)own.st_ino, ret_inode);
	mnl_socket_close(diag);
	return error;
}

static bool has_descriptor(int fds, uint32_t inode)
{
	pg_autoclosedir DIR *dir = pg_dir_reopen(fds);
	char wanted[32], target[sizeof(wanted)];
	const struct dirent *entry;

	snprintf(wanted, sizeof(wanted), "socket:[%" PRIu32 "]", inode);
	while (dir && (entry = readdir(dir))) {
		ssize_t size = readlinkat(fds, entry->d_name, target, sizeof(target) - 1);

		if (size < 0)
			continue;
		target[size] = '\0';
		if (strcmp(target, wanted) == 0)
			return true;
	}
	return false;
}

int pg_caller_check_socket(const struct pg_caller *caller, int socket_fd, struct pg_error *err)
{
	pg_autoclose int fds = openat(caller->proc_fd, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uint32_t inode;
	int error;

	if (fds < 0)
		return pg_fail_errno(err, -errno, "cannot look at the descriptors of process %d",
				     caller->pid);
	error = find_peer(socket_fd, &inode);
	if (error)
		return pg_fail_errno(err, error, "the other end of a connection cannot be told");
	if (!has_descriptor(fds, inode))
		return pg_fail(err, -ESRCH, "process %d does not have the connection any more",
			       caller->pid);
	return 0;
}
