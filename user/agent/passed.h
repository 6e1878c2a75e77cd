/* SPDX-License-Identifier: Apache-2.0 */
/* What systemd passes at the start: the socket to serve, and what an earlier agent has stored. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "environment/host.h"

struct pg_stored {
	char *name;
	int fd;
};

struct pg_passed {
	int listen_fd; /* -1: none */
	struct pg_stored *items;
	size_t count;
};

int pg_passed_open(struct pg_passed *passed, struct pg_error *err) PG_MUST_CHECK;
/* drop: what nobody has taken is forgotten; else it is there for the next start. */
void pg_passed_clear(struct pg_passed *passed, bool drop);

void pg_passed_keep(const char *name, int fd);
int pg_passed_take(struct pg_passed *passed, const char *name);
void pg_passed_drop(const char *name);
