/* SPDX-License-Identifier: Apache-2.0 */
/* A server inside a container: what comes from outside stays possible in every phase. */
#include "serve.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LARGE 200000

enum kind {
	ECHO,	   /* What comes goes back, until the other end closes. */
	RESETS,	   /* Echoes once, and closes with SO_LINGER 0. */
	CLOSES,	   /* Echoes once, and closes first: TIME_WAIT is on this side. */
	DOWNLOADS, /* Sends much. */
	DATAGRAMS,
};

static int listen_at(int port, enum kind kind)
{
	struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
	int type = kind == DATAGRAMS ? SOCK_DGRAM : SOCK_STREAM, one = 1, queue = 64;
	int fd = socket(AF_INET6, type | SOCK_CLOEXEC, 0);

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&any, sizeof(any)))
		return -1;
	if (type == SOCK_DGRAM)
		return fd;
	setsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN, &queue, sizeof(queue));
	return listen(fd, queue) ? -1 : fd;
}

static void echo_datagram(int fd)
{
	static char data[65536];
	struct sockaddr_storage peer;
	socklen_t size = sizeof(peer);
	ssize_t length = recvfrom(fd, data, sizeof(data), 0, (struct sockaddr *)&peer, &size);

	if (length >= 0 && sendto(fd, data, (size_t)length, 0, (struct sockaddr *)&peer, size) < 0)
		perror("sendto");
}

static void serve_stream(int fd, enum kind kind)
{
	static char data[LARGE];
	struct linger now = {.l_onoff = 1};
	ssize_t length = 0;

	if (kind == DOWNLOADS) {
		for (size_t done = 0; length >= 0 && done < sizeof(data); done += (size_t)length)
			length = send(fd, data + done, sizeof(data) - done, MSG_NOSIGNAL);
	} else {
		while ((length = recv(fd, data, sizeof(data), 0)) > 0) {
			length = send(fd, data, (size_t)length, MSG_NOSIGNAL);
			if (kind != ECHO || length < 0)
				break;
		}
	}
	if (kind == RESETS)
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(fd);
}

int serve(void)
{
	struct pollfd pollers[DATAGRAMS + 1];

	for (enum kind kind = ECHO; kind <= DATAGRAMS; kind++) {
		pollers[kind] = (struct pollfd){.fd = listen_at(SERVE_PORT + (int)kind, kind),
						.events = POLLIN};
		if (pollers[kind].fd < 0)
			return 1;
	}
	puts("ready");
	fflush(stdout);
	while (poll(pollers, DATAGRAMS + 1, -1) > 0 || errno == EINTR) {
		for (enum kind kind = ECHO; kind <= DATAGRAMS; kind++) {
			int stream;

			if (!(pollers[kind].revents & POLLIN))
				continue;
			if (kind == DATAGRAMS) {
				echo_datagram(pollers[kind].fd);
			} else {
				stream = accept(pollers[kind].fd, NULL, NULL);
				if (stream >= 0)
					serve_stream(stream, kind);
			}
		}
	}
	return 1;
}
