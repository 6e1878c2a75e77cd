/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resolve NAME TOKEN: resolves the name as the C library does it, connects to each address, sends
 * the token and reads it back. Prints "ADDRESS TOKEN" or "ADDRESS ERRNO" for each, or "unresolved"
 * and why. Built against musl, whose resolver sends to all nameservers at once from one socket.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORT "7000"

static void visit(const struct addrinfo *to, const char *token)
{
	char address[INET6_ADDRSTRLEN], echo[256] = "";
	int fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ssize_t size = -1;

	getnameinfo(to->ai_addr, to->ai_addrlen, address, sizeof(address), NULL, 0, NI_NUMERICHOST);
	if (fd >= 0 && connect(fd, to->ai_addr, to->ai_addrlen) == 0 &&
	    send(fd, token, strlen(token), MSG_NOSIGNAL) >= 0 && shutdown(fd, SHUT_WR) == 0)
		size = recv(fd, echo, sizeof(echo) - 1, 0);
	printf("%s %s\n", address, size >= 0 ? echo : strerror(errno));
	close(fd);
}

int main(int argc, char **argv)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *found;
	int failure;

	if (argc != 3)
		return 2;
	failure = getaddrinfo(argv[1], PORT, &hints, &found);
	if (failure) {
		printf("unresolved %s\n", gai_strerror(failure));
		return 1;
	}
	for (const struct addrinfo *one = found; one; one = one->ai_next)
		visit(one, argv[2]);
	freeaddrinfo(found);
	return 0;
}
