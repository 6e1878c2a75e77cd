/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP server of the workloads: two paths, of 1 KB and of 10 MB. */
#include "bench.h"

#include <pthread.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#define THREADS	 16 /* connections at once; proxies keep some open */
#define HEAD_MAX 4096
#define SMALL	 1000
#define LARGE	 10000000

static char body[1 << 20];

static bool send_all(int fd, const char *data, size_t size, int flags)
{
	while (size) {
		const ssize_t sent = send(fd, data, size, MSG_NOSIGNAL | flags);

		if (sent <= 0)
			return false;
		data += sent;
		size -= (size_t)sent;
	}
	return true;
}

/* Returns whether the connection stays. */
static bool answer(int fd, const char *request)
{
	const bool large = strstr(request, " " BENCH_PATH_LARGE " ");
	const bool closes = strcasestr(request, "\r\nConnection: close");
	size_t left = large ? LARGE : SMALL;
	char head[256];
	const int size = snprintf(head, sizeof(head),
				  "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n"
				  "Content-Length: %zu\r\nConnection: %s\r\n\r\n",
				  left, closes ? "close" : "keep-alive");

	if (!send_all(fd, head, (size_t)size, MSG_MORE))
		return false;
	while (left) {
		const size_t part = left < sizeof(body) ? left : sizeof(body);

		if (!send_all(fd, body, part, 0))
			return false;
		left -= part;
	}
	return !closes;
}

static void serve(int fd)
{
	char request[HEAD_MAX + 1];
	size_t have = 0;

	for (;;) {
		const ssize_t size = recv(fd, request + have, HEAD_MAX - have, 0);

		if (size <= 0)
			return;
		have += (size_t)size;
		request[have] = '\0';
		if (!strstr(request, "\r\n\r\n"))
			continue;
		/* Nobody here sends the next request before the answer. */
		if (!answer(fd, request))
			return;
		have = 0;
	}
}

static void *accept_and_serve(void *argument)
{
	const int listener = *(int *)argument;

	for (;;) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0)
			continue;
		serve(fd);
		close(fd);
	}
	return NULL;
}

int server_http_start(int *listener)
{
	memset(body, 'h', sizeof(body));
	for (size_t i = 0; i < THREADS; i++) {
		pthread_t thread;
		const int error = pthread_create(&thread, NULL, accept_and_serve, listener);

		if (error)
			return -error;
	}
	return 0;
}
