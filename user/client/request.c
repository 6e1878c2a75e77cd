/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP by libcurl. A connection is kept for the next call. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "client.h"

/* The agent's loop takes connections more often. */
#define RETRY_MS 10

void client_reply_clear(struct client_reply *reply)
{
	free(reply->text);
	*reply = (struct client_reply){0};
}

static void append(struct client_request *request, char c)
{
	const size_t used = strlen(request->target);

	if (used + 1 < sizeof(request->target))
		request->target[used] = c;
	else
		request->cut = true;
}

static void append_text(struct client_request *request, const char *text)
{
	for (; text && *text; text++)
		append(request, *text);
}

/* All but what RFC 3986 calls unreserved is written as %XX; isalnum() would depend on the locale.
 */
static void append_escaped(struct client_request *request, const char *text)
{
	static const char digits[] = "0123456789ABCDEF";

	for (; text && *text; text++) {
		const unsigned char c = (unsigned char)*text;

		if (isascii(c) && (isalnum(c) || strchr("-._~", c))) {
			append(request, (char)c);
			continue;
		}
		append(request, '%');
		append(request, digits[c >> 4]);
		append(request, digits[c & 15]);
	}
}

void client_target(struct client_request *request, const char *path, const char *name,
		   const char *rest)
{
	append_text(request, path);
	append_escaped(request, name);
	append_text(request, rest);
}

void client_query(struct client_request *request, const char *field, const char *value)
{
	if (!value)
		return;
	append(request, strchr(request->target, '?') ? '&' : '?');
	append_text(request, field);
	append(request, '=');
	append_escaped(request, value);
}

static size_t receive(char *data, size_t one, size_t size, void *userdata)
{
	struct client_reply *reply = userdata;
	size_t room = reply->room ? reply->room : 4096;
	char *larger;

	while (room <= reply->size + size)
		room *= 2;
	reply->too_large = reply->size + size > CLIENT_REPLY_MAX;
	if (reply->too_large)
		return 0;
	if (room > reply->room) {
		larger = realloc(reply->text, room);
		reply->no_memory = !larger;
		if (!larger)
			return 0;
		reply->text = larger;
		reply->room = room;
	}
	memcpy(reply->text + reply->size, data, size);
	reply->size += size;
	reply->text[reply->size] = '\0';
	return size;
}

static CURLcode set_up(struct phasegate_client *client, const struct client_request *request,
		       struct curl_slist *headers, struct client_reply *reply)
{
	char url[CLIENT_TARGET_MAX + 32];
	CURL *curl = client->curl;
	CURLcode code;

	snprintf(url, sizeof(url), "http://localhost%s", request->target);
	curl_easy_reset(curl);
	code = curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, client->socket);
	/* Of the strings only those that curl copies can fail, for memory. */
	if (code == CURLE_OK)
		code = curl_easy_setopt(curl, CURLOPT_URL, url);
	if (code == CURLE_OK)
		code = curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request->method);
	/* No proxy of the environment can come in between. */
	if (code == CURLE_OK)
		code = curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
	curl_easy_setopt(curl, CURLOPT_CLOSESOCKETFUNCTION, client_close_socket);
	curl_easy_setopt(curl, CURLOPT_CLOSESOCKETDATA, client);
	/* On a connection of an earlier call that has died curl would make a request once more,
	 * which may have had effect. */
	curl_easy_setopt(curl, CURLOPT_FORBID_REUSE, 1L);
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)client->timeout_ms);
	curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, client->failure);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, receive);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, reply);
	if (request->body) {
		curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request->body);
		curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->size);
	}
	return code;
}

static bool is_full(const struct phasegate_client *client, CURLcode code)
{
	long number = 0;

	if (!client->never_connected || code == CURLE_OK)
		return false;
	curl_easy_getinfo(client->curl, CURLINFO_OS_ERRNO, &number);
	return number == 0 || number == EAGAIN || number == ENOTCONN;
}

static const char *unreachable_next_step(int number)
{
	switch (number) {
	case EACCES:
	case EPERM:
		return "call as root, or as a member of the group of the socket, which is "
		       "\"group\" "
		       "of the agent's settings";
	case 0:
	case ENOENT:
	case ECONNREFUSED:
		return "start the agent, as root: \"systemctl start phasegated\", or "
		       "\"phasegated\" "
		       "without systemd; PHASEGATE_SOCKET names another socket";
	default:
		return "check the socket's path; PHASEGATE_SOCKET names another";
	}
}

static int fail(struct phasegate_client *client, CURLcode code, const struct client_reply *reply,
		struct phasegate_error **ret_error)
{
	const char *why = *client->failure ? client->failure : curl_easy_strerror(code);
	long number = 0;

	if (reply->no_memory || code == CURLE_OUT_OF_MEMORY)
		return client_no_memory(ret_error);
	if (reply->too_large)
		return client_bad_reply(ret_error, "it is too large");
	if (is_full(client, code))
		return client_fail(ret_error, -ETIMEDOUT, "agent_unreachable",
				   "try again later; something connects to the agent too often",
				   "the agent at %s has had no room for one more connection",
				   client->socket);
	if (code != CURLE_COULDNT_CONNECT)
		return client_fail(ret_error, -EIO, "agent_lost",
				   "see what is in force before trying again",
				   "no whole answer from the agent at %s: %s", client->socket, why);
	curl_easy_getinfo(client->curl, CURLINFO_OS_ERRNO, &number);
	return client_fail(ret_error, number ? -(int)number : -ECONNREFUSED, "agent_unreachable",
			   unreachable_next_step((int)number), "cannot reach the agent at %s: %s",
			   client->socket, number ? strerror((int)number) : why);
}

/* Waits until the agent has accepted others, for as long as a request may take. */
static CURLcode attempt(struct phasegate_client *client)
{
	static const struct timespec pause = {.tv_nsec = RETRY_MS * PG_NSEC_PER_MSEC};
	const uint64_t deadline =
		pg_monotonic_ns() + (uint64_t)client->timeout_ms * PG_NSEC_PER_MSEC;
	CURLcode code;

	for (;;) {
		client->never_connected = false;
		code = curl_easy_perform(client->curl);
		if (!is_full(client, code) || (client->timeout_ms && pg_monotonic_ns() >= deadline))
			return code;
		nanosleep(&pause, NULL);
	}
}

static CURLcode perform(struct phasegate_client *client, const struct client_request *request,
			struct client_reply *reply)
{
	/* The agent takes no "Expect: 100-continue" of curl's, which costs a round trip. */
	struct curl_slist *headers = curl_slist_append(NULL, "Expect:"), *more;
	CURLcode code = CURLE_OUT_OF_MEMORY;

	more = headers ? curl_slist_append(headers, "Content-Type: application/json") : NULL;
	if (more)
		code = set_up(client, request, more, reply);
	client->failure[0] = '\0';
	if (code == CURLE_OK)
		code = attempt(client);
	if (code == CURLE_OK)
		curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &reply->status);
	curl_slist_free_all(headers);
	return code;
}

int client_send(struct phasegate_client *client, const struct client_request *request,
		struct client_reply *reply, struct phasegate_error **ret_error)
{
	CURLcode code;

	if (request->cut)
		return client_bad_argument(ret_error, "a name of the request is too long");
	code = perform(client, request, reply);
	if (code != CURLE_OK)
		return fail(client, code, reply, ret_error);
	if (!reply->text)
		return client_bad_reply(ret_error, "it is empty");
	if (reply->status < 200 || reply->status >= 300)
		return client_refused(ret_error, reply);
	return 0;
}

int client_send_json(struct phasegate_client *client, struct client_request *request,
		     struct pg_json_writer *json, struct client_reply *reply,
		     struct phasegate_error **ret_error)
{
	pg_autofree char *body = NULL;

	if (pg_json_writer_end(json, &body, &request->size) < 0)
		return client_no_memory(ret_error);
	request->body = body;
	return client_send(client, request, reply, ret_error);
}

int client_parse(const struct client_reply *reply, struct pg_json **ret_json,
		 struct phasegate_error **ret_error)
{
	static const struct pg_json_limits limits = {
		.size = CLIENT_REPLY_MAX,
		.depth = 16,
		.values = 16UL * 1024 * 1024,
	};
	struct pg_json_problem problem = {};
	pg_autojson struct pg_json *json = NULL;
	int error = pg_json_parse(reply->text, reply->size, &limits, &json, &problem);

	if (error == -ENOMEM)
		return client_no_memory(ret_error);
	if (error)
		return client_bad_reply(ret_error, problem.message);
	if (!pg_json_is_object(pg_json_root(json)))
		return client_bad_reply(ret_error, "it is no JSON object");
	*ret_json = PG_TAKE_PTR(json);
	return 0;
}

void client_take(struct client_reply *reply, char **ret_json)
{
	if (ret_json)
		*ret_json = PG_TAKE_PTR(reply->text);
}
