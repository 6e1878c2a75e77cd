/* SPDX-License-Identifier: Apache-2.0 */
/* Private to user/client/: one request and its reply. */
#pragma once

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>

#include <phasegate/phasegate.h>

#include "base/cleanup.h"
#include "json/json.h"
#include "json/write.h"

/* A listing of 1,024 Environments is some 2 MiB; a policy with a million entries is 100 MiB. */
#define CLIENT_REPLY_MAX (256UL * 1024 * 1024)

#define CLIENT_TIMEOUT_MS 120000

/* "/v1/environments/NAME/explain?host=...&phase=..." */
#define CLIENT_TARGET_MAX 2048

struct phasegate_client {
	CURL *curl;
	char *socket;
	unsigned int timeout_ms;
	bool never_connected; /* the socket that was closed last */
	char failure[CURL_ERROR_SIZE];
};

struct client_request {
	const char *method;
	char target[CLIENT_TARGET_MAX];
	bool cut;	  /* the target has no room for all */
	const char *body; /* NULL: none */
	size_t size;
};

struct client_reply {
	long status;
	char *text; /* with a NUL that size does not count */
	size_t size, room;
	bool too_large, no_memory;
};
void client_reply_clear(struct client_reply *reply);
#define client_autoreply PG_CLEANUP(client_reply_clear)

/* The target begins with the path; name, escaped, and rest follow. NULL: nothing. */
void client_target(struct client_request *request, const char *path, const char *name,
		   const char *rest);
/* Adds a query field. value NULL: nothing is added. */
void client_query(struct client_request *request, const char *field, const char *value);

/* A curl_closesocket_callback; the userdata is the client. */
int client_close_socket(void *userdata, curl_socket_t fd);

/* 0: the reply has a status below 300. */
int client_send(struct phasegate_client *client, const struct client_request *request,
		struct client_reply *reply, struct phasegate_error **ret_error) PG_MUST_CHECK;

/* Sends a body that is being written, which ends here in any case. */
int client_send_json(struct phasegate_client *client, struct client_request *request,
		     struct pg_json_writer *json, struct client_reply *reply,
		     struct phasegate_error **ret_error) PG_MUST_CHECK;

/* The reply as an object. */
int client_parse(const struct client_reply *reply, struct pg_json **ret_json,
		 struct phasegate_error **ret_error) PG_MUST_CHECK;

/* Hands the text of the reply over, if it is wanted. */
void client_take(struct client_reply *reply, char **ret_json);

/* Make an error of this library; return number. */
int client_fail(struct phasegate_error **ret_error, int number, const char *code,
		const char *next_step, const char *format, ...) PG_PRINTF(5, 6);
int client_bad_argument(struct phasegate_error **ret_error, const char *format, ...)
	PG_PRINTF(2, 3);
int client_no_memory(struct phasegate_error **ret_error);
int client_bad_reply(struct phasegate_error **ret_error, const char *why);
/* The error that the reply is. */
int client_refused(struct phasegate_error **ret_error, const struct client_reply *reply);

/* Members policy, form and allow. -EINVAL: a document is no JSON object. */
int client_write_policy(struct pg_json_writer *json, const struct phasegate_policy *policy,
			struct phasegate_error **ret_error) PG_MUST_CHECK;
/* A member whose value is a text that is JSON already: an object, checked as far as it could end
 * early. -EINVAL */
int client_write_object(struct pg_json_writer *json, const char *name, const char *text,
			struct phasegate_error **ret_error) PG_MUST_CHECK;
/* Nothing if text is NULL. */
void client_write_given(struct pg_json_writer *json, const char *name, const char *text);
