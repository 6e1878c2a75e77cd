/* SPDX-License-Identifier: Apache-2.0 */
#include "adversary.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

bool is_v6(const union any *address)
{
	return address->sa.sa_family == AF_INET6;
}

socklen_t size_of(const union any *address)
{
	return is_v6(address) ? sizeof(address->in6) : sizeof(address->in);
}

const void *bytes_of(const union any *address, size_t *ret_size)
{
	*ret_size = is_v6(address) ? 16 : 4;
	return is_v6(address) ? (const void *)&address->in6.sin6_addr
			      : (const void *)&address->in.sin_addr;
}

const char *text_of(const union any *address)
{
	static char texts[4][INET6_ADDRSTRLEN];
	static unsigned next;
	char *text = texts[next++ % 4];
	size_t size;

	return inet_ntop(address->sa.sa_family, bytes_of(address, &size), text, INET6_ADDRSTRLEN);
}

union any with_port(const union any *address, uint16_t port)
{
	union any copy = *address;

	/* The port is at the same place in both. */
	copy.in.sin_port = htons(port);
	return copy;
}

union any loopback_of(const union any *like)
{
	union any address = {.in = {.sin_family = AF_INET, .sin_port = htons(PORT)}};

	address.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (!is_v6(like))
		return address;
	address = (union any){.in6 = {.sin6_family = AF_INET6, .sin6_port = htons(PORT)}};
	address.in6.sin6_addr = in6addr_loopback;
	if (IN6_IS_ADDR_V4MAPPED(&like->in6.sin6_addr))
		inet_pton(AF_INET6, "::ffff:127.0.0.1", &address.in6.sin6_addr);
	return address;
}

int open_socket(const union any *like, int type, int protocol)
{
	int fd = socket(like->sa.sa_family, type | SOCK_CLOEXEC, protocol);

	return fd < 0 ? -errno : fd;
}

int bound_socket(const union any *address, int type, int protocol)
{
	int fd = open_socket(address, type, protocol);

	if (fd < 0)
		return fd;
	set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	return bind(fd, &address->sa, size_of(address)) ? -errno : fd;
}

int sent(ssize_t result)
{
	return result < 0 ? -errno : 0;
}

int set_option(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) ? -errno : 0;
}

int connect_soon(int fd, const union any *to)
{
	struct pollfd poller = {.fd = fd, .events = POLLOUT};
	int flags = fcntl(fd, F_GETFL), error = 0;
	socklen_t size = sizeof(error);

	fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	if (connect(fd, &to->sa, size_of(to)) && errno != EINPROGRESS)
		error = errno;
	else if (poll(&poller, 1, PATIENCE_MS) != 1)
		error = ETIMEDOUT;
	else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size))
		error = errno;
	fcntl(fd, F_SETFL, flags);
	return -error;
}

int send_stream(int fd, const struct attempt *attempt)
{
	struct pollfd poller = {.fd = fd, .events = POLLIN};
	int result = sent(send(fd, attempt->token, strlen(attempt->token), MSG_NOSIGNAL));

	shutdown(fd, SHUT_WR);
	/* The server closes as soon as it has read the end. */
	poll(&poller, 1, PATIENCE_MS);
	return result;
}

int send_token(int fd, const struct attempt *attempt, const union any *to)
{
	return sent(sendto(fd, attempt->token, strlen(attempt->token), 0, to ? &to->sa : NULL,
			   to ? size_of(to) : 0));
}

int send_control(int fd, const struct attempt *attempt, const union any *to, int level, int type,
		 const void *data, size_t size)
{
	_Alignas(struct cmsghdr) char room[256] = {0};
	struct iovec part = {(void *)attempt->token, strlen(attempt->token)};
	struct msghdr message = {
		.msg_name = (void *)to,
		.msg_namelen = size_of(to),
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = room,
		.msg_controllen = CMSG_SPACE(size),
	};
	struct cmsghdr *control = CMSG_FIRSTHDR(&message);

	control->cmsg_level = level;
	control->cmsg_type = type;
	control->cmsg_len = CMSG_LEN(size);
	memcpy(CMSG_DATA(control), data, size);
	return sent(sendmsg(fd, &message, 0));
}

int shell(const char *format, ...)
{
	/* busybox's shell prefers its own commands of these names. */
	char command[1024] = "exec >/dev/null 2>&1; set -e; ip() { /bin/ip \"$@\"; }; "
			     "tc() { /bin/tc \"$@\"; }; nft() { /bin/nft \"$@\"; }; ";
	size_t used = strlen(command);
	va_list arguments;
	int status;

	va_start(arguments, format);
	vsnprintf(command + used, sizeof(command) - used, format, arguments);
	va_end(arguments);
	status = system(command);
	return status == 0 ? 0 : -EOPNOTSUPP;
}

int wait_up(const char *device)
{
	struct ifreq request = {0};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), up = 0;

	strncpy(request.ifr_name, device, IFNAMSIZ - 1);
	for (int tries = 0; !up && tries < 8 * PATIENCE_MS; tries++) {
		up = ioctl(fd, SIOCGIFFLAGS, &request) == 0 && request.ifr_flags & IFF_RUNNING;
		if (!up)
			poll(NULL, 0, 1);
	}
	close(fd);
	return up ? 0 : -ENETDOWN;
}
