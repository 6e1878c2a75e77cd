/* SPDX-License-Identifier: Apache-2.0 */
#include "passed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "base/log.h"

static int take_passed(struct pg_passed *passed, int fd, char *name, struct pg_error *err)
{
	if (strncmp(name, PG_STORE_NAME, strlen(PG_STORE_NAME)) == 0) {
		passed->items[passed->count++] = (struct pg_stored){name, fd};
		return 0;
	}
	free(name);
	if (passed->listen_fd >= 0) {
		close(fd);
		return pg_fail(err, -EINVAL,
			       "systemd passes several sockets to serve; the agent has one");
	}
	passed->listen_fd = fd;
	return 0;
}

int pg_passed_open(struct pg_passed *passed, struct pg_error *err)
{
	pg_autofree char **names = NULL;
	const int count = sd_listen_fds_with_names(1, &names);
	int error = 0;

	*passed = (struct pg_passed){.listen_fd = -1};
	if (count < 0)
		return pg_fail_errno(err, count, "cannot tell what systemd passes");
	if (count == 0)
		return 0;
	passed->items = calloc((size_t)count, sizeof(*passed->items));
	for (int i = 0; i < count; i++) {
		const int fd = SD_LISTEN_FDS_START + i;

		if (passed->items && !error) {
			error = take_passed(passed, fd, names[i], err);
			continue;
		}
		free(names[i]);
		close(fd);
	}
	return passed->items ? error : pg_fail(err, -ENOMEM, "no memory for what systemd passes");
}

void pg_passed_clear(struct pg_passed *passed, bool drop)
{
	for (size_t i = 0; i < passed->count; i++) {
		if (drop && passed->items[i].fd >= 0)
			pg_passed_drop(passed->items[i].name);
		pg_close_fd(&passed->items[i].fd);
		free(passed->items[i].name);
	}
	free(PG_TAKE_PTR(passed->items));
	passed->count = 0;
}

/* Without systemd nothing is kept. */
void pg_passed_keep(const char *name, int fd)
{
	char message[PG_STORE_NAME_MAX + 32];
	int r;

	snprintf(message, sizeof(message), "FDSTORE=1\nFDNAME=%s", name);
	r = sd_pid_notify_with_fds(0, 0, message, &fd, 1);
	if (r < 0)
		pg_log_warning("a socket for names is not kept over a restart: %s", strerror(-r));
}

int pg_passed_take(struct pg_passed *passed, const char *name)
{
	for (size_t i = 0; i < passed->count; i++)
		if (passed->items[i].fd >= 0 && strcmp(passed->items[i].name, name) == 0)
			return PG_TAKE_FD(passed->items[i].fd);
	return -1;
}

void pg_passed_drop(const char *name)
{
	sd_notifyf(0, "FDSTOREREMOVE=1\nFDNAME=%s", name);
}
