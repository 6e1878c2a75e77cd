/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1.1, directly or through a proxy, whose client names the whole URL. */
#include "bench.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/clock.h"

#define HEAD_MAX 4096
#define PART	 (1UL << 17)

struct client {
	const struct assignment *assignment;
	int fd; /* -1: not connected */
	bool kept;
};

static void send_request(struct client *client, const char *path)
{
	const uint16_t proxy = client->assignment->proxy_port;
	char text[256];
	int size;

	if (client->fd < 0)
		client->fd = connected(SOCK_STREAM, proxy ? BENCH_PROXY4 : BENCH_TARGET4,
				       proxy ? proxy : BENCH_PORT_HTTP);
	size = snprintf(text, sizeof(text),
			"GET %s%s HTTP/1.1\r\nHost: " BENCH_TARGET4 ":%d\r\nConnection: %s\r\n\r\n",
			proxy ? BENCH_URL : "", path, BENCH_PORT_HTTP,
			client->kept ? "keep-alive" : "close");
	/* What a closed connection does not take is found missing when the answer is read. */
	if (send(client->fd, text, (size_t)size, MSG_NOSIGNAL) != size && errno != EPIPE &&
	    errno != ECONNRESET)
		fail("HTTP request: %s", strerror(errno));
}

/* The value of a header, or NULL. */
static const char *header(const char *head, const char *name)
{
	const size_t length = strlen(name);

	for (const char *line = strstr(head, "\r\n"); line; line = strstr(line, "\r\n")) {
		line += 2;
		if (!strncasecmp(line, name, length) && line[length] == ':')
			return line + length + 1 + strspn(line + length + 1, " ");
	}
	return NULL;
}

/*
 * Returns how much of the body has come with the head; *ret_size is what it is in all. -1: a kept
 * connection had been closed in the meantime, which HTTP allows.
 */
static ssize_t receive_head(struct client *client, bool reused, size_t *ret_size)
{
	char head[HEAD_MAX + 1];
	const char *end = NULL, *value;
	size_t have = 0;

	while (!end) {
		const ssize_t size = recv(client->fd, head + have, HEAD_MAX - have, 0);

		if (size <= 0 && reused && !have)
			return -1;
		if (size <= 0)
			fail("HTTP answer: %s", size ? strerror(errno) : "the connection ended");
		have += (size_t)size;
		head[have] = '\0';
		end = strstr(head, "\r\n\r\n");
		if (!end && have == HEAD_MAX)
			fail("HTTP answer: the head is too long");
	}
	if (strncmp(head, "HTTP/1.", 7) != 0 || strncmp(head + 8, " 200", 4) != 0)
		fail("HTTP answer: %.*s", (int)strcspn(head, "\r"), head);
	value = header(head, "Content-Length");
	if (!value)
		fail("HTTP answer: of unknown length");
	*ret_size = strtoul(value, NULL, 10);
	value = header(head, "Connection");
	if ((value && !strncasecmp(value, "close", 5)) || head[7] == '0')
		client->kept = false;
	return (ssize_t)have - (end + 4 - head);
}

static void disconnect(struct client *client)
{
	close_reset(client->fd);
	client->fd = -1;
}

static size_t ask(struct client *client, const char *path, size_t *ret_size)
{
	const bool reused = client->fd >= 0;
	ssize_t have;

	send_request(client, path);
	have = receive_head(client, reused, ret_size);
	if (have >= 0)
		return (size_t)have;
	disconnect(client);
	return ask(client, path, ret_size);
}

static void get(struct client *client, const char *path, bool kept)
{
	static char part[PART];
	size_t size, have;

	client->kept = kept;
	have = ask(client, path, &size);
	while (have < size) {
		const ssize_t got = recv(client->fd, part, sizeof(part), 0);

		if (got <= 0)
			fail("HTTP answer: %s", got ? strerror(errno) : "the connection ended");
		have += (size_t)got;
	}
	if (!client->kept)
		disconnect(client);
}

static void run(const struct assignment *assignment, uint64_t until_ns, uint64_t *operations,
		const char *path, bool kept)
{
	struct client client = {.assignment = assignment, .fd = -1};

	for (; pg_monotonic_ns() < until_ns; ++*operations)
		get(&client, path, kept);
	pg_close_fd(&client.fd);
}

/* A proxy that closes all the same is connected to again. */
void run_http_kept(const struct assignment *assignment, uint64_t until_ns, uint64_t *operations)
{
	run(assignment, until_ns, operations, BENCH_PATH_SMALL, true);
}

void run_http_single(const struct assignment *assignment, uint64_t until_ns, uint64_t *operations)
{
	run(assignment, until_ns, operations, BENCH_PATH_SMALL, false);
}

void run_http_large(const struct assignment *assignment, uint64_t until_ns, uint64_t *operations)
{
	run(assignment, until_ns, operations, BENCH_PATH_LARGE, true);
}
