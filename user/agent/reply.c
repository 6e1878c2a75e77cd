/* SPDX-License-Identifier: Apache-2.0 */
#include "reply.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

static const struct {
	unsigned int status;
	const char *name, *next_step;
} codes[] = {
#define PG_X(symbol, status, name, next_step) [PG_API_##symbol] = {status, name, next_step},
	PG_API_ERRORS(PG_X)
#undef PG_X
};

unsigned int pg_api_error_status(enum pg_api_error code)
{
	return codes[code].status;
}

const char *pg_api_error_name(enum pg_api_error code)
{
	return codes[code].name;
}

const char *pg_api_error_next_step(enum pg_api_error code)
{
	return codes[code].next_step;
}

void pg_reply_clear(struct pg_reply *reply)
{
	pg_json_writer_clear(&reply->json);
	free(reply->body);
	*reply = (struct pg_reply){0};
}

/* Without any memory of its own: no body, only the status. */
static void give_up(struct pg_reply *reply)
{
	pg_reply_clear(reply);
	reply->status = pg_api_error_status(PG_API_OUT_OF_MEMORY);
}

struct pg_json_writer *pg_reply_open(struct pg_reply *reply, unsigned int status)
{
	pg_reply_clear(reply);
	reply->status = status;
	if (pg_json_writer_start(&reply->json) < 0) {
		give_up(reply);
		return NULL;
	}
	pg_json_write_open(&reply->json, NULL, '{');
	return &reply->json;
}

void pg_reply_close(struct pg_reply *reply)
{
	if (!reply->json.out)
		return;
	pg_json_write_close(&reply->json, '}');
	putc('\n', reply->json.out);
	if (pg_json_writer_end(&reply->json, &reply->body, &reply->size) < 0)
		give_up(reply);
}

static struct pg_json_writer *open_error(struct pg_reply *reply, enum pg_api_error code,
					 const char *object, const char *next_step,
					 const char *message)
{
	struct pg_json_writer *json = pg_reply_open(reply, pg_api_error_status(code));

	if (!json)
		return NULL;
	pg_json_write_string(json, "code", pg_api_error_name(code));
	pg_json_write_string(json, "message", message);
	pg_json_write_string(json, "object", object);
	pg_json_write_string(json, "next_step",
			     next_step ? next_step : pg_api_error_next_step(code));
	return json;
}

struct pg_json_writer *pg_reply_open_error(struct pg_reply *reply, enum pg_api_error code,
					   const char *object, const char *next_step,
					   const char *format, ...)
{
	char message[PG_ERROR_TEXT];
	va_list args;

	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	return open_error(reply, code, object, next_step, message);
}

int pg_reply_error(struct pg_reply *reply, enum pg_api_error code, const char *object,
		   const char *next_step, const char *format, ...)
{
	char message[PG_ERROR_TEXT];
	va_list args;

	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	open_error(reply, code, object, next_step, message);
	pg_reply_close(reply);
	return -EINVAL;
}

void pg_reply_problem(struct pg_reply *reply, const struct pg_json_problem *problem)
{
	char next_step[sizeof(problem->hint) + 16];

	snprintf(next_step, sizeof(next_step), "write \"%s\"", problem->hint);
	pg_reply_error(reply, PG_API_REQUEST_INVALID, problem->pointer,
		       *problem->hint ? next_step : NULL, "%s", problem->message);
}
