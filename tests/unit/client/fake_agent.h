/* SPDX-License-Identifier: Apache-2.0 */
/* A server on a Unix socket that takes one request for each reply it is given, and keeps it. */
#pragma once

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define FAKE_REQUEST_MAX 65536

struct fake_agent {
	char directory[64], path[96];
	int listen_fd;
	pthread_t thread;
	const char *reply; /* the whole of it; NULL: closes without a word */
	char request[FAKE_REQUEST_MAX];
	size_t size;
};

/* Whether the head and the body that it promises are there. */
static inline int fake_agent_complete(const struct fake_agent *fake)
{
	const char *end = strstr(fake->request, "\r\n\r\n");
	const char *length = strstr(fake->request, "Content-Length: ");
	const size_t body = length ? strtoul(length + 16, NULL, 10) : 0;

	return end && fake->size >= (size_t)(end + 4 - fake->request) + body;
}

static inline void *fake_agent_serve(void *userdata)
{
	struct fake_agent *fake = userdata;
	int fd = accept(fake->listen_fd, NULL, NULL);
	ssize_t size = 1;

	while (size > 0 && !fake_agent_complete(fake)) {
		size = read(fd, fake->request + fake->size, sizeof(fake->request) - 1 - fake->size);
		fake->size += size > 0 ? (size_t)size : 0;
	}
	if (fake->reply)
		(void)!write(fd, fake->reply, strlen(fake->reply));
	close(fd);
	return NULL;
}

/* Listens, and accepts nobody yet. */
static inline void fake_agent_listen(struct fake_agent *fake, const char *reply)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};

	*fake = (struct fake_agent){.reply = reply};
	snprintf(fake->directory, sizeof(fake->directory), "/tmp/pgt-client-XXXXXX");
	if (!mkdtemp(fake->directory))
		abort();
	snprintf(fake->path, sizeof(fake->path), "%s/s", fake->directory);
	snprintf(name.sun_path, sizeof(name.sun_path), "%s", fake->path);
	fake->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(fake->listen_fd, (const struct sockaddr *)&name, sizeof(name)) ||
	    listen(fake->listen_fd, 1))
		abort();
}

static inline void fake_agent_accept(struct fake_agent *fake)
{
	if (pthread_create(&fake->thread, NULL, fake_agent_serve, fake))
		abort();
}

static inline void fake_agent_start(struct fake_agent *fake, const char *reply)
{
	fake_agent_listen(fake, reply);
	fake_agent_accept(fake);
}

/* Waits until the reply is out. */
static inline void fake_agent_stop(struct fake_agent *fake)
{
	pthread_join(fake->thread, NULL);
	close(fake->listen_fd);
	unlink(fake->path);
	rmdir(fake->directory);
}

static inline const char *fake_agent_body(const struct fake_agent *fake)
{
	const char *end = strstr(fake->request, "\r\n\r\n");

	return end ? end + 4 : "";
}
