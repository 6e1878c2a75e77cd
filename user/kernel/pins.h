/* SPDX-License-Identifier: Apache-2.0 */
/* Private to user/kernel/. */
#pragma once

#include <limits.h>

#include "base/error.h"

/* directory/name */
int pg_pins_join(char path[static PATH_MAX], const char *directory, const char *name,
		 struct pg_error *err) PG_MUST_CHECK;

/* Unlinks all pins in directory and the directory; links detach. Missing ones are no error. */
int pg_pins_remove(const char *directory, struct pg_error *err) PG_MUST_CHECK;
