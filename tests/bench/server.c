/* SPDX-License-Identifier: Apache-2.0 */
/* The far end of the workloads: accepts and closes, answers, swallows. */
#include "bench.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANY "0.0.0.0"

/* The first octet of a stream says what it wants; one that is reset has none. */
static void serve_stream(int fd)
{
	char buffer[1 << 17];
	ssize_t size = recv(fd, buffer, 1, 0);
	const bool answers = size == 1 && buffer[0] == 'r';

	while (size > 0) {
		if (answers && send(fd, buffer, (size_t)size, MSG_NOSIGNAL) < 0)
			break;
		size = recv(fd, buffer, sizeof(buffer), 0);
	}
	close(fd);
}

static void *accept_and_close(void *argument)
{
	const int listener = *(int *)argument;

	for (;;) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd >= 0)
			close(fd);
	}
	return NULL;
}

/*
 * Nobody reads the datagrams: the socket is full at once and the kernel drops there, which costs
 * the same whoever sent them.
 */
void server_start(const char *namespace)
{
	const int datagrams = socket_in(namespace, SOCK_DGRAM, ANY, BENCH_PORT);
	int connects = socket_in(namespace, SOCK_STREAM, ANY, BENCH_PORT);
	const int streams = socket_in(namespace, SOCK_STREAM, ANY, BENCH_PORT + 1);
	int http = socket_in(namespace, SOCK_STREAM, ANY, BENCH_PORT_HTTP);
	const pid_t parent = getpid(), pid = fork();
	pthread_t thread;
	int small = 4096;

	setsockopt(datagrams, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	if (pid < 0)
		fail("fork: %s", strerror(errno));
	if (pid) {
		close(datagrams);
		close(connects);
		close(streams);
		close(http);
		return;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	pin_first();
	if (pthread_create(&thread, NULL, accept_and_close, &connects) ||
	    server_http_start(&http) < 0)
		_exit(1);
	for (;;) {
		int fd = accept4(streams, NULL, NULL, SOCK_CLOEXEC);

		if (fd >= 0)
			serve_stream(fd);
	}
}
