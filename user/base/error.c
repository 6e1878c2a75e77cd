/* SPDX-License-Identifier: Apache-2.0 */
#include "error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void format_into(struct pg_error *err, int number, const char *format, va_list args)
{
	err->number = number;
	vsnprintf(err->text, sizeof(err->text), format, args);
}

int pg_fail(struct pg_error *err, int number, const char *format, ...)
{
	va_list args;

	if (!err)
		return number;
	va_start(args, format);
	format_into(err, number, format, args);
	va_end(args);
	return number;
}

int pg_fail_errno(struct pg_error *err, int number, const char *format, ...)
{
	char reason[128];
	va_list args;
	size_t used;

	if (!err)
		return number;
	va_start(args, format);
	format_into(err, number, format, args);
	va_end(args);
	used = strlen(err->text);
	snprintf(err->text + used, sizeof(err->text) - used, ": %s",
		 strerror_r(-number, reason, sizeof(reason)));
	return number;
}

int pg_error_prefix(struct pg_error *err, const char *format, ...)
{
	char text[PG_ERROR_TEXT];
	va_list args;
	size_t used;

	/* Without the error its number is gone, but a failure must not turn into success. */
	if (!err)
		return -EIO;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	used = strlen(text);
	/* A long chain loses its tail, the root cause's details; never the object at its head. */
	strncat(text, ": ", sizeof(text) - used - 1);
	used = strlen(text);
	strncat(text, err->text, sizeof(text) - used - 1);
	memcpy(err->text, text, sizeof(text));
	return err->number;
}
