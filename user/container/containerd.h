/* SPDX-License-Identifier: Apache-2.0 */
/* Private to user/container/: tasks of containerd, each a directory below that of its namespace. */
#pragma once

#include "container.h"

/* Errors as of pg_container_find(). */
int pg_containerd_find(const char *state, const char *name, struct pg_container *container,
		       struct pg_error *err) PG_MUST_CHECK;
