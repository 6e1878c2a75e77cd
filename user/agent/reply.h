/* SPDX-License-Identifier: Apache-2.0 */
/* What a request is answered with. Making a reply cannot fail: without memory it says so. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "error_codes.h"
#include "json/json.h"
#include "json/write.h"

struct pg_reply {
	unsigned int status;
	bool lines;	/* JSON lines instead of one object */
	char allow[48]; /* the methods that the path has; "": not to be said */
	bool wait; /* nothing to say yet: ask again when an event has come, or the time is up */
	struct pg_json_writer json;
	char *body;
	size_t size;
};

/* Opens the object of a reply with this status; returns where to write its members. */
struct pg_json_writer *pg_reply_open(struct pg_reply *reply, unsigned int status);
/* Closes it. */
void pg_reply_close(struct pg_reply *reply);
void pg_reply_clear(struct pg_reply *reply);

/*
 * {"code":...,"message":...,"object":...,"next_step":...}. object is what the error is about: a
 * JSON pointer into the request, a name, a cursor; next_step NULL: the code's own. Returns -EINVAL.
 */
int pg_reply_error(struct pg_reply *reply, enum pg_api_error code, const char *object,
		   const char *next_step, const char *format, ...) PG_PRINTF(5, 6);
/* The same, left open for more members. NULL, with a whole reply, if there is no memory. */
struct pg_json_writer *pg_reply_open_error(struct pg_reply *reply, enum pg_api_error code,
					   const char *object, const char *next_step,
					   const char *format, ...) PG_PRINTF(5, 6);
void pg_reply_problem(struct pg_reply *reply, const struct pg_json_problem *problem);
