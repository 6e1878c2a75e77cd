/* SPDX-License-Identifier: Apache-2.0 */
#include "test_pairs.h"

#include <arpa/inet.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

uint16_t port_of(int fd)
{
	struct sockaddr_in6 name;
	socklen_t size = sizeof(name);

	CHECK(getsockname(fd, (void *)&name, &size) == 0);
	return ntohs(name.sin6_port); /* the same place as sin_port */
}

socklen_t endpoint(struct sockaddr_storage *storage, const char *text, uint16_t port)
{
	struct sockaddr_in6 *v6 = (void *)storage;
	struct sockaddr_in *v4 = (void *)storage;

	memset(storage, 0, sizeof(*storage));
	if (strchr(text, ':')) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(port);
		CHECK(inet_pton(AF_INET6, text, &v6->sin6_addr) == 1);
		return sizeof(*v6);
	}
	v4->sin_family = AF_INET;
	v4->sin_port = htons(port);
	CHECK(inet_pton(AF_INET, text, &v4->sin_addr) == 1);
	return sizeof(*v4);
}

int bound(enum place place, int type, int protocol, const char *address, uint16_t port)
{
	struct sockaddr_storage name;
	socklen_t size = endpoint(&name, address, port);
	const int on = 1;
	int fd;

	world_enter(place);
	fd = socket(name.ss_family, type | SOCK_CLOEXEC, protocol);
	if (fd < 0 && protocol == IPPROTO_MPTCP)
		return -1;
	CHECK(fd >= 0);
	CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0);
	CHECK(bind(fd, (void *)&name, size) == 0);
	if (type == SOCK_STREAM)
		CHECK(listen(fd, 16) == 0);
	return fd;
}

void connect_to(int fd, const char *address, uint16_t port)
{
	struct sockaddr_storage name;
	socklen_t size = endpoint(&name, address, port);

	CHECK(connect(fd, (void *)&name, size) == 0);
}

int connected(enum place place, int type, int protocol, const char *address, uint16_t port)
{
	int fd;

	world_enter(place);
	fd = socket(strchr(address, ':') ? AF_INET6 : AF_INET, type | SOCK_CLOEXEC, protocol);
	CHECK(fd >= 0);
	connect_to(fd, address, port);
	return fd;
}

struct pair tcp_pair(enum place client, const char *client_address, enum place server,
		     const char *server_address, int protocol)
{
	struct pair pair = {0};
	int listener = bound(server, SOCK_STREAM, protocol, server_address, 0);

	CHECK(listener >= 0);
	pair.server_port = port_of(listener);
	pair.client = connected(client, SOCK_STREAM, protocol, client_address, pair.server_port);
	pair.client_port = port_of(pair.client);
	pair.server = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	CHECK(pair.server >= 0);
	close(listener);
	return pair;
}

void drop(struct pair *pair)
{
	const struct linger reset = {.l_onoff = 1, .l_linger = 0};

	setsockopt(pair->client, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	setsockopt(pair->server, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(pair->client);
	close(pair->server);
}

int pending_error(int fd)
{
	int error = -1;
	socklen_t size = sizeof(error);

	CHECK(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0);
	return error;
}

void check_works(int from, int to)
{
	char byte = 0;
	struct pollfd poll_to = {.fd = to, .events = POLLIN};

	CHECK(send(from, "x", 1, MSG_NOSIGNAL) == 1);
	CHECK(poll(&poll_to, 1, 1000) == 1);
	CHECK(recv(to, &byte, 1, 0) == 1 && byte == 'x');
}
