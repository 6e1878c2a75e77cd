/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

#define MESSAGE_MAX 1024

/* The error of last resort; it is handed out as if it were the caller's own. */
static struct phasegate_error no_memory = {
	.number = -ENOMEM,
	.code = "out_of_memory",
	.message = "not enough memory",
	.next_step = "free memory and try again",
};

/* One block: the struct and its texts behind it. Texts of the list may be NULL. */
static struct phasegate_error *make(const char *const texts[5])
{
	struct phasegate_error *error;
	const char *copies[5] = {NULL};
	size_t size = sizeof(*error);
	char *end;

	for (size_t i = 0; i < PG_ARRAY_SIZE(copies); i++)
		size += texts[i] ? strlen(texts[i]) + 1 : 0;
	error = calloc(1, size);
	if (!error)
		return NULL;
	end = (char *)(error + 1);
	for (size_t i = 0; i < PG_ARRAY_SIZE(copies); i++) {
		if (!texts[i])
			continue;
		copies[i] = end;
		end = stpcpy(end, texts[i]) + 1;
	}
	*error = (struct phasegate_error){
		.code = copies[0],
		.message = copies[1],
		.object = copies[2],
		.next_step = copies[3],
		.json = copies[4],
	};
	return error;
}

static int hand_over(struct phasegate_error **ret_error, int number, unsigned int status,
		     struct phasegate_error *error)
{
	if (!error)
		return client_no_memory(ret_error);
	error->number = number;
	error->status = status;
	*ret_error = error;
	return number;
}

static int fail(struct phasegate_error **ret_error, int number, const char *code,
		const char *next_step, const char *format, va_list arguments) PG_PRINTF(5, 0);

static int fail(struct phasegate_error **ret_error, int number, const char *code,
		const char *next_step, const char *format, va_list arguments)
{
	char message[MESSAGE_MAX];

	if (!ret_error)
		return number;
	vsnprintf(message, sizeof(message), format, arguments);
	return hand_over(ret_error, number, 0,
			 make((const char *[]){code, message, NULL, next_step, NULL}));
}

int client_fail(struct phasegate_error **ret_error, int number, const char *code,
		const char *next_step, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	number = fail(ret_error, number, code, next_step, format, arguments);
	va_end(arguments);
	return number;
}

int client_bad_argument(struct phasegate_error **ret_error, const char *format, ...)
{
	va_list arguments;
	int number;

	va_start(arguments, format);
	number =
		fail(ret_error, -EINVAL, "bad_argument", "correct the argument", format, arguments);
	va_end(arguments);
	return number;
}

int client_no_memory(struct phasegate_error **ret_error)
{
	if (ret_error)
		*ret_error = &no_memory;
	return -ENOMEM;
}

int client_bad_reply(struct phasegate_error **ret_error, const char *why)
{
	return client_fail(ret_error, -EPROTO, "agent_reply",
			   "check that the socket is that of phasegated, and that both have the "
			   "same version",
			   "the answer is none of the agent's: %s", why);
}

static const char *text_of(const struct pg_json_value *root, const char *name)
{
	const struct pg_json_value *value = pg_json_member(root, name);

	return value ? pg_json_string_of(value) : NULL;
}

int client_refused(struct phasegate_error **ret_error, const struct client_reply *reply)
{
	const struct pg_json_value *root;
	pg_autojson struct pg_json *json = NULL;
	const char *texts[5];
	int error;

	if (!ret_error)
		return -EREMOTEIO;
	error = client_parse(reply, &json, ret_error);
	if (error)
		return error;
	root = pg_json_root(json);
	texts[0] = text_of(root, "code");
	texts[1] = text_of(root, "message");
	texts[2] = text_of(root, "object");
	texts[3] = text_of(root, "next_step");
	texts[4] = reply->text;
	if (!texts[0] || !texts[1])
		return client_bad_reply(ret_error, "an error without code or message");
	if (!texts[3])
		texts[3] = "";
	return hand_over(ret_error, -EREMOTEIO, (unsigned int)reply->status, make(texts));
}

PHASEGATE_API void phasegate_error_free(struct phasegate_error *error)
{
	if (error != &no_memory)
		free(error);
}
