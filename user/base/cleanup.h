/* SPDX-License-Identifier: Apache-2.0 */
/* Cleanup attributes: a resource is released when its variable leaves the scope, unless taken. */
#pragma once

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PG_CLEANUP(func)     __attribute__((cleanup(func)))
#define PG_MUST_CHECK	     __attribute__((warn_unused_result))
#define PG_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* Hands over a pointer or descriptor at the single point of success. */
#define PG_TAKE(value, empty) \
	({ \
		__auto_type pg_take_from_ = &(value); \
		__auto_type pg_taken_ = *pg_take_from_; \
		*pg_take_from_ = (empty); \
		pg_taken_; \
	})
#define PG_TAKE_PTR(pointer)   PG_TAKE(pointer, NULL)
#define PG_TAKE_FD(descriptor) PG_TAKE(descriptor, -1)

/* The value of a macro as text. */
#define PG_STRING_OF(text) #text
#define PG_STRING(macro)   PG_STRING_OF(macro)

#define PG_ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

static inline void pg_free_ptr(void *pointer)
{
	free(*(void **)pointer);
}

static inline void pg_close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static inline void pg_close_dir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

static inline void pg_close_file(FILE **file)
{
	if (*file)
		fclose(*file);
}

#define pg_autofree	PG_CLEANUP(pg_free_ptr)
#define pg_autoclose	PG_CLEANUP(pg_close_fd)
#define pg_autoclosedir PG_CLEANUP(pg_close_dir)
#define pg_autofclose	PG_CLEANUP(pg_close_file)
