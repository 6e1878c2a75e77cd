/* SPDX-License-Identifier: Apache-2.0 */
/* A runtime's API on a Unix socket that answers paths as its rules say. */
#pragma once

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "container/container.h"

#define FAKE_RULES_MAX 8

struct fake_rule {
	const char *path; /* NULL: the end */
	const char *body;
	size_t blanks; /* so many follow the body */
	bool silent;   /* the client gets no answer */
	bool noise;    /* what it gets is no HTTP */
	unsigned int status;
};

struct fake_runtime {
	char directory[32], socket[64];
	const struct fake_rule *rules;
	int fd;
	pthread_t thread;
};

static const struct fake_rule *fake_find(const struct fake_runtime *fake, const char *request)
{
	const char *path = strchr(request, ' ');
	const size_t length = path ? strcspn(++path, " ") : 0;

	for (const struct fake_rule *rule = fake->rules; path && rule->path; rule++)
		if (strlen(rule->path) == length && memcmp(rule->path, path, length) == 0)
			return rule;
	return NULL;
}

/* The client may have given up. */
static void fake_send(int fd, const char *data, size_t size)
{
	while (size > 0) {
		ssize_t sent = send(fd, data, size, MSG_NOSIGNAL);

		if (sent <= 0)
			return;
		data += sent;
		size -= (size_t)sent;
	}
}

static void fake_answer(int fd, const struct fake_rule *rule)
{
	static const char missing[] =
		"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
	char head[256], blanks[4096];

	if (!rule) {
		fake_send(fd, missing, strlen(missing));
		return;
	}
	if (rule->noise) {
		fake_send(fd, "\001\002\003\r\n\r\n", 7);
		return;
	}
	snprintf(head, sizeof(head),
		 "HTTP/1.1 %u X\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n",
		 rule->status ? rule->status : 200);
	fake_send(fd, head, strlen(head));
	fake_send(fd, rule->body, strlen(rule->body));
	memset(blanks, ' ', sizeof(blanks));
	for (size_t left = rule->blanks; left > 0; left -= left < 4096 ? left : 4096)
		fake_send(fd, blanks, left < 4096 ? left : 4096);
}

static void *fake_serve(void *userdata)
{
	const struct fake_runtime *fake = userdata;
	int fd;

	while ((fd = accept4(fake->fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		char request[4096];
		ssize_t size = recv(fd, request, sizeof(request) - 1, 0);
		const struct fake_rule *rule;

		request[size > 0 ? size : 0] = '\0';
		rule = fake_find(fake, request);
		if (rule && rule->silent) {
			/* Until the client leaves. */
			while (recv(fd, request, sizeof(request), 0) > 0)
				;
		} else {
			fake_answer(fd, rule);
		}
		close(fd);
	}
	return NULL;
}

static void fake_start(struct fake_runtime *fake, const struct fake_rule *rules)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	*fake = (struct fake_runtime){.directory = "/tmp/pgt-runtime-XXXXXX", .rules = rules};
	cr_assert_not_null(mkdtemp(fake->directory));
	snprintf(fake->socket, sizeof(fake->socket), "%s/sock", fake->directory);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", fake->socket);
	fake->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert(fake->fd >= 0);
	cr_assert_eq(bind(fake->fd, (struct sockaddr *)&address, sizeof(address)), 0);
	cr_assert_eq(listen(fake->fd, 8), 0);
	cr_assert_eq(pthread_create(&fake->thread, NULL, fake_serve, fake), 0);
}

static void fake_stop(struct fake_runtime *fake)
{
	shutdown(fake->fd, SHUT_RDWR);
	pthread_join(fake->thread, NULL);
	close(fake->fd);
	unlink(fake->socket);
	rmdir(fake->directory);
}

/* Only the runtime at hand is there. */
static struct pg_runtimes fake_runtimes(const struct fake_runtime *docker, unsigned int wait_ms)
{
	struct pg_runtimes runtimes = {.deadline = pg_monotonic_ns() + wait_ms * PG_NSEC_PER_MSEC};

	for (size_t i = 0; i < PG_RUNTIME_COUNT; i++)
		runtimes.paths[i] = "/nonexistent";
	runtimes.paths[PG_RUNTIME_DOCKER] = docker->socket;
	return runtimes;
}
