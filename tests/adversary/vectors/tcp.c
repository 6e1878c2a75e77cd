/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, by every way in which a socket can come to a peer. */
#include "../adversary.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif

static int connect_and_send(int fd, const struct attempt *attempt)
{
	int result = fd < 0 ? fd : connect_soon(fd, &attempt->target);

	return result ? result : send_stream(fd, attempt);
}

VECTOR(tcp_connect)
{
	return connect_and_send(open_socket(&attempt->target, SOCK_STREAM, 0), attempt);
}

/* The payload is in the SYN. */
VECTOR(tcp_fastopen)
{
	int fd = open_socket(&attempt->target, SOCK_STREAM, 0);

	return sent(sendto(fd, attempt->token, strlen(attempt->token), MSG_FASTOPEN | MSG_NOSIGNAL,
			   &attempt->target.sa, size_of(&attempt->target)));
}

VECTOR(tcp_fastopen_connect)
{
	int fd = open_socket(&attempt->target, SOCK_STREAM, 0);
	int result = set_option(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1);

	return result ? result : connect_and_send(fd, attempt);
}

/* At any address, so that it can be connected to any; reached at the container's own. */
static int own_listener(const struct attempt *attempt, union any *ret_address)
{
	union any any = {.sa.sa_family = attempt->target.sa.sa_family};
	socklen_t size = sizeof(any);
	int fd = bound_socket(&any, SOCK_STREAM, 0);

	if (fd < 0)
		return fd;
	if (listen(fd, 8) || getsockname(fd, &any.sa, &size))
		return -errno;
	*ret_address = loopback_of(&attempt->target);
	if (attempt->own.sa.sa_family == any.sa.sa_family)
		*ret_address = attempt->own;
	*ret_address = with_port(ret_address, ntohs(any.in.sin_port));
	return fd;
}

static int connect_anew(int fd, const struct attempt *attempt)
{
	struct sockaddr none = {.sa_family = AF_UNSPEC};

	if (connect(fd, &none, sizeof(none)))
		return -errno;
	return connect_and_send(fd, attempt);
}

/* A socket that was connected to what is allowed. */
VECTOR(tcp_reconnect)
{
	union any address;
	int listener = own_listener(attempt, &address);
	int fd = open_socket(&attempt->target, SOCK_STREAM, 0);
	int result = listener < 0 ? listener : connect_soon(fd, &address);

	return result ? result : connect_anew(fd, attempt);
}

/* One that was accepted: its packets are replies. */
VECTOR(tcp_accepted_reconnect)
{
	union any address;
	int listener = own_listener(attempt, &address), accepted;
	int fd = open_socket(&attempt->target, SOCK_STREAM, 0);
	int result = listener < 0 ? listener : connect_soon(fd, &address);

	if (result)
		return result;
	accepted = accept(listener, NULL, NULL);
	return accepted < 0 ? -errno : connect_anew(accepted, attempt);
}

VECTOR(tcp_listener_reconnect)
{
	union any address;
	int listener = own_listener(attempt, &address);

	return listener < 0 ? listener : connect_anew(listener, attempt);
}

VECTOR(tcp_sendfile)
{
	int fd = open_socket(&attempt->target, SOCK_STREAM, 0);
	int file = memfd_create("token", MFD_CLOEXEC), result = connect_soon(fd, &attempt->target);
	off_t begin = 0;

	if (result || (result = sent(write(file, attempt->token, strlen(attempt->token)))))
		return result;
	return sent(sendfile(fd, file, &begin, strlen(attempt->token)));
}

VECTOR(tcp_zerocopy)
{
	int fd = open_socket(&attempt->target, SOCK_STREAM, 0);
	int result = set_option(fd, SOL_SOCKET, SO_ZEROCOPY, 1);

	if (result || (result = connect_soon(fd, &attempt->target)))
		return result;
	return sent(send(fd, attempt->token, strlen(attempt->token), MSG_ZEROCOPY | MSG_NOSIGNAL));
}

VECTOR(mptcp)
{
	return connect_and_send(open_socket(&attempt->target, SOCK_STREAM, IPPROTO_MPTCP), attempt);
}

/* A connection that is there without a handshake (NET_ADMIN). */
VECTOR(tcp_repair)
{
	int fd = open_socket(&attempt->target, SOCK_STREAM, 0);
	int result = set_option(fd, IPPROTO_TCP, TCP_REPAIR, 1);
	union any from = with_port(&attempt->own, 0);
	struct tcp_repair_window window = {.snd_wnd = 1024, .max_window = 1024, .rcv_wnd = 1024};

	if (result)
		return result;
	if (bind(fd, &from.sa, size_of(&from)) ||
	    connect(fd, &attempt->target.sa, size_of(&attempt->target)))
		return -errno;
	/* The peer is ready for more than nothing. */
	setsockopt(fd, IPPROTO_TCP, TCP_REPAIR_WINDOW, &window, sizeof(window));
	/* Off without a probe of the window, which the peer would answer by RST. */
	result = set_option(fd, IPPROTO_TCP, TCP_REPAIR, -1);
	return result ? result : sent(send(fd, attempt->token, strlen(attempt->token), 0));
}
