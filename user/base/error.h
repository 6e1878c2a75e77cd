/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An error with its context. Library functions return 0 or a negative errno and, on failure, put
 * into the struct pg_error what object, what operation and what next step; they do not log. The
 * text has a fixed size so that reporting cannot fail.
 */
#pragma once

#include "cleanup.h"

#define PG_ERROR_TEXT 1024

struct pg_error {
	int number; /* negative errno; 0: no error */
	char text[PG_ERROR_TEXT];
};

/*
 * Sets the error to the formatted text and returns number (a negative errno). The text names the
 * object and the operation; strerror(number) is not appended. err may be NULL.
 */
int pg_fail(struct pg_error *err, int number, const char *format, ...) PG_PRINTF(3, 4);

/* The same, with ": " and the description of the errno appended. */
int pg_fail_errno(struct pg_error *err, int number, const char *format, ...) PG_PRINTF(3, 4);

/* Puts "formatted text: " before the text that is there, and returns err->number. */
int pg_error_prefix(struct pg_error *err, const char *format, ...) PG_PRINTF(2, 3);
