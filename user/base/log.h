/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log messages of programs (the CLI and the agent; library code returns errors instead). Two
 * sinks, each with its own level: standard error and, optionally, a file. One line a message.
 */
#pragma once

#include <stdbool.h>

#include "cleanup.h"
#include "error.h"

enum pg_log_level {
	PG_LOG_ERROR,
	PG_LOG_WARNING,
	PG_LOG_INFO,
	PG_LOG_DEBUG,
};

/* Reads "error", "warning", "info" or "debug". -EINVAL leaves *ret_level untouched. */
int pg_log_level_parse(const char *name, enum pg_log_level *ret_level) PG_MUST_CHECK;

const char *pg_log_level_name(enum pg_log_level level);

/* Level of standard error; PG_LOG_WARNING until set. */
void pg_log_set_level(enum pg_log_level level);

/*
 * Receives each message for standard error, NUL-terminated, instead of the plain line; for programs
 * whose standard error has another form. NULL: plain lines.
 */
typedef void (*pg_log_sink)(void *userdata, enum pg_log_level level, const char *message);
void pg_log_set_sink(pg_log_sink sink, void *userdata);

/* Appends to the file at path (created 0640, O_CLOEXEC) what is at or above level. */
int pg_log_open_file(const char *path, enum pg_log_level level, struct pg_error *err) PG_MUST_CHECK;
void pg_log_close(void);

/* Whether a message of this level would reach any sink; for messages costly to format. */
bool pg_log_enabled(enum pg_log_level level);

void pg_log(enum pg_log_level level, const char *format, ...) PG_PRINTF(2, 3);
#define pg_log_error(...)   pg_log(PG_LOG_ERROR, __VA_ARGS__)
#define pg_log_warning(...) pg_log(PG_LOG_WARNING, __VA_ARGS__)
#define pg_log_info(...)    pg_log(PG_LOG_INFO, __VA_ARGS__)
#define pg_log_debug(...)   pg_log(PG_LOG_DEBUG, __VA_ARGS__)
