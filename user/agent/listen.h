/* SPDX-License-Identifier: Apache-2.0 */
/* The socket that the agent listens at. */
#pragma once

#include <stdbool.h>

#include "config.h"

/*
 * passed_fd, which systemd has passed, or (-1) one at config->socket (mode 0600, or 0660 for the
 * group); what a dead agent left there is replaced, -EADDRINUSE if somebody answers. *ret_made: it
 * is to be removed at the end.
 */
int pg_listen(const struct pg_config *config, int passed_fd, int *ret_fd, bool *ret_made,
	      struct pg_error *err) PG_MUST_CHECK;
