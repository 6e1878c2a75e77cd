/* SPDX-License-Identifier: Apache-2.0 */
#include "server_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/log.h"

#define FIRST_ROOM 4096

static struct pg_client *client_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

static bool add_headers(struct MHD_Response *response, const struct pg_reply *reply)
{
	const char *type = reply->lines ? "application/x-ndjson" : "application/json";

	if (MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type) != MHD_YES)
		return false;
	return !*reply->allow ||
	       MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, reply->allow) == MHD_YES;
}

/* Hands the reply's body over. */
static enum MHD_Result send_reply(struct pg_exchange *exchange, struct pg_reply *reply)
{
	const size_t size = reply->size;
	struct MHD_Response *response =
		MHD_create_response_from_buffer(reply->size, reply->body, MHD_RESPMEM_MUST_FREE);
	enum MHD_Result result = MHD_NO;

	if (!response)
		return MHD_NO;
	reply->body = NULL;
	if (add_headers(response, reply))
		result = MHD_queue_response(exchange->connection, reply->status, response);
	MHD_destroy_response(response);
	exchange->client->sending = size;
	pg_client_enter(exchange->client, PG_CLIENT_SENDING);
	return result;
}

struct query {
	struct pg_request *request;
	bool bad;
};

static enum MHD_Result take_query(void *cls, enum MHD_ValueKind kind, const char *name,
				  size_t name_size, const char *value, size_t value_size)
{
	struct query *query = cls;
	struct pg_request *request = query->request;

	if (request->query_count == PG_QUERY_MAX || strlen(name) != name_size ||
	    (value && strlen(value) != value_size)) {
		query->bad = true;
		return MHD_NO;
	}
	request->query[request->query_count++] = (struct pg_query_value){name, value ? value : ""};
	return MHD_YES;
}

static int read_query(struct pg_exchange *exchange, struct pg_request *request,
		      struct pg_reply *reply)
{
	struct query query = {.request = request};

	MHD_get_connection_values_n(exchange->connection, MHD_GET_ARGUMENT_KIND, take_query,
				    &query);
	if (query.bad)
		return pg_reply_error(reply, PG_API_REQUEST_INVALID, NULL, NULL,
				      "the query has more than %d fields, or a NUL", PG_QUERY_MAX);
	return pg_route_check_query(exchange->route, request, reply);
}

/* Octets of all requests and replies in memory: of one user, and of all. */
struct in_memory {
	size_t receiving, sending, of_user_receiving, of_user_sending;
};

static struct in_memory count_memory(const struct pg_server *server, uid_t uid)
{
	const struct pg_client *client;
	struct in_memory sum = {0};

	TAILQ_FOREACH (client, &server->clients, link) {
		const bool own = client->caller.uid == uid;

		sum.receiving += client->receiving;
		sum.sending += client->sending;
		sum.of_user_receiving += own ? client->receiving : 0;
		sum.of_user_sending += own ? client->sending : 0;
	}
	return sum;
}

/* Asked before the handler is, whose work must not be lost with the reply. */
static bool may_send(const struct pg_server *server, uid_t uid)
{
	const struct in_memory sum = count_memory(server, uid);

	return sum.sending < PG_SENDING_MAX && sum.of_user_sending < PG_SENDING_MAX / PG_USER_SHARE;
}

static bool may_receive(const struct pg_server *server, uid_t uid, size_t more)
{
	const struct in_memory sum = count_memory(server, uid);

	return sum.receiving + more <= PG_RECEIVING_MAX &&
	       sum.of_user_receiving + more <= PG_RECEIVING_MAX / PG_USER_SHARE;
}

/* Everything of the request is here. */
static void dispatch(struct pg_server *server, struct pg_exchange *exchange, struct pg_reply *reply)
{
	struct pg_agent *agent = server->agent;
	struct pg_request request = {
		.method = exchange->route->method,
		.path = exchange->route->path,
		.name = *exchange->name ? exchange->name : NULL,
		.body = exchange->body ? exchange->body : "",
		.size = exchange->size,
		.caller = &exchange->client->caller,
		.resume = &exchange->resume,
		.work = &exchange->work,
		.last = exchange->waiting && exchange->deadline <= pg_monotonic_ns(),
	};
	enum pg_api_error code;
	struct pg_error err = {};

	request.last |= agent->stopping;
	if (exchange->too_large)
		pg_reply_error(reply, PG_API_BODY_TOO_LARGE, NULL, NULL,
			       "a request has at most %lu octets", PG_REQUEST_MAX);
	else if (exchange->no_memory)
		pg_reply_error(reply, PG_API_OUT_OF_MEMORY, NULL, NULL,
			       "too much is being received already");
	else if (!may_send(server, request.caller->uid))
		pg_reply_error(reply, PG_API_OUT_OF_MEMORY, NULL, NULL,
			       "too many replies have not been read yet");
	/* Nothing is begun any more that would have to be waited for. */
	else if (agent->stopping && !exchange->waiting)
		pg_reply_error(reply, PG_API_STOPPING, NULL, NULL, "the agent is being stopped");
	else if (pg_client_authorise(agent, request.caller, &code, &err) < 0)
		pg_reply_error(reply, code, NULL, NULL, "%s", err.text);
	else if (read_query(exchange, &request, reply) == 0)
		exchange->route->handler(agent, &request, reply);
}

static void start_waiting(struct pg_server *server, struct pg_exchange *exchange)
{
	exchange->has_turn = false;
	if (!exchange->waiting) {
		exchange->waiting = true;
		exchange->deadline = pg_monotonic_ns() + PG_FOLLOW_SECONDS * PG_NSEC_PER_SEC;
	}
	pg_client_enter(exchange->client, PG_CLIENT_WAITING);
	LIST_INSERT_HEAD(&server->waiting, exchange, link);
	MHD_suspend_connection(exchange->connection);
}

/* An event is nothing to one that waits for its work, and the time is up for all at the end. */
static bool goes_on(const struct pg_server *server, const struct pg_exchange *exchange, bool all,
		    uint64_t now)
{
	if (exchange->deadline <= now || server->agent->stopping)
		return true;
	return exchange->work ? pg_work_is_over(exchange->work) : all;
}

void pg_exchanges_wake(struct pg_server *server, bool all)
{
	const uint64_t now = pg_monotonic_ns();
	struct pg_exchange *exchange = LIST_FIRST(&server->waiting), *next;

	for (; exchange; exchange = next) {
		next = LIST_NEXT(exchange, link);
		if (!all && pg_client_has_left(exchange->client))
			exchange->deadline = now;
		if (!goes_on(server, exchange, all, now))
			continue;
		LIST_REMOVE(exchange, link);
		pg_client_enter(exchange->client, PG_CLIENT_BUSY);
		MHD_resume_connection(exchange->connection);
	}
}

static enum MHD_Result finish(struct pg_server *server, struct pg_exchange *exchange)
{
	struct pg_reply reply = {0};
	enum MHD_Result result = MHD_YES;
	uint64_t start;

	if (!pg_turn_take(server, exchange))
		return MHD_YES;
	/* It has been waiting, and others still are. */
	if (exchange->has_turn && pg_client_is_gone(exchange->client))
		return MHD_NO;
	start = pg_monotonic_ns();
	dispatch(server, exchange, &reply);
	pg_turn_used(server, exchange->client->caller.uid, pg_monotonic_ns() - start);
	if (reply.wait)
		start_waiting(server, exchange);
	else
		result = send_reply(exchange, &reply);
	pg_reply_clear(&reply);
	return result;
}

/* What is claimed is checked before anything is received. */
static bool claims_too_much(struct MHD_Connection *connection)
{
	const char *length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
							 MHD_HTTP_HEADER_CONTENT_LENGTH);

	return length && strtoull(length, NULL, 10) > PG_REQUEST_MAX;
}

/* The rest of a header field's value, without what may stand around it. */
static bool is_word(const char *text, size_t size, const char *word)
{
	while (size > 0 && (*text == ' ' || *text == '\t')) {
		text++;
		size--;
	}
	while (size > 0 && (text[size - 1] == ' ' || text[size - 1] == '\t'))
		size--;
	return size == strlen(word) && strncasecmp(text, word, size) == 0;
}

/* JSON has no parameters (RFC 8259, 11); many say its only encoding. What curl(1) says of any data
 * that it is given is taken for nothing said. */
static bool is_json(const char *type)
{
	const size_t length = strcspn(type, ";");
	const char *rest = type[length] ? type + length + 1 : NULL;

	if (!is_word(type, length, "application/json") &&
	    !is_word(type, length, "application/x-www-form-urlencoded"))
		return false;
	return !rest || is_word(rest, strlen(rest), "charset=utf-8") ||
	       is_word(rest, strlen(rest), "charset=\"utf-8\"");
}

/* Of a request with a body. */
static bool is_readable(struct MHD_Connection *connection)
{
	const char *type = MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
						       MHD_HTTP_HEADER_CONTENT_TYPE);
	const char *encoding = MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
							   MHD_HTTP_HEADER_CONTENT_ENCODING);

	return (!type || is_json(type)) &&
	       (!encoding || is_word(encoding, strlen(encoding), "identity"));
}

/* The headers are here. false: the reply is ready. */
static bool begin(struct pg_server *server, struct pg_exchange *exchange, const char *url,
		  const char *method, struct pg_reply *reply)
{
	const struct pg_client *client = exchange->client;

	if (client->refused)
		pg_reply_error(reply, client->refusal, NULL, NULL, "%s", client->refusal_text);
	else if (claims_too_much(exchange->connection))
		pg_reply_error(reply, PG_API_BODY_TOO_LARGE, NULL, NULL,
			       "a request has at most %lu octets", PG_REQUEST_MAX);
	else if (server->agent->stopping)
		pg_reply_error(reply, PG_API_STOPPING, NULL, NULL, "the agent is being stopped");
	else
		exchange->route =
			pg_route_find(strcmp(method, MHD_HTTP_METHOD_HEAD) == 0 ? "GET" : method,
				      url, exchange->name, reply);
	if (exchange->route && strcmp(exchange->route->method, "GET") != 0 &&
	    !is_readable(exchange->connection)) {
		exchange->route = NULL;
		pg_reply_error(reply, PG_API_MEDIA_TYPE_UNSUPPORTED, NULL, NULL,
			       "the body is said to be something else than JSON");
	}
	return exchange->route;
}

static void receive(struct pg_server *server, struct pg_exchange *exchange, const char *data,
		    size_t size)
{
	const size_t need = exchange->size + size;
	struct pg_client *client = exchange->client;
	size_t room = exchange->room ? exchange->room : FIRST_ROOM;
	char *larger;

	exchange->too_large |= need > PG_REQUEST_MAX;
	if (exchange->too_large || exchange->no_memory)
		return;
	while (room < need)
		room *= 2;
	if (room > PG_REQUEST_MAX)
		room = PG_REQUEST_MAX;
	if (room > exchange->room) {
		larger = may_receive(server, client->caller.uid, room - exchange->room)
				 ? realloc(exchange->body, room)
				 : NULL;
		exchange->no_memory = !larger;
		if (!larger)
			return;
		client->receiving = room;
		exchange->body = larger;
		exchange->room = room;
	}
	memcpy(exchange->body + exchange->size, data, size);
	exchange->size = need;
}

static enum MHD_Result start(struct pg_server *server, struct MHD_Connection *connection,
			     const char *url, const char *method, void **context)
{
	struct pg_exchange *exchange = calloc(1, sizeof(*exchange));
	struct pg_reply reply = {0};
	enum MHD_Result result = MHD_YES;

	if (!exchange)
		return MHD_NO;
	*context = exchange;
	exchange->connection = connection;
	exchange->client = client_of(connection);
	pg_client_enter(exchange->client, PG_CLIENT_BUSY);
	if (!begin(server, exchange, url, method, &reply))
		result = send_reply(exchange, &reply);
	pg_reply_clear(&reply);
	return result;
}

enum MHD_Result pg_exchange_handle(void *cls, struct MHD_Connection *connection, const char *url,
				   const char *method, const char *version, const char *data,
				   size_t *size, void **context)
{
	struct pg_server *server = cls;
	struct pg_exchange *exchange = *context;

	if (!exchange)
		return start(server, connection, url, method, context);
	if (*size > 0) {
		receive(server, exchange, data, *size);
		*size = 0;
		return MHD_YES;
	}
	return finish(server, exchange);
}

void pg_exchange_complete(void *cls, struct MHD_Connection *connection, void **context,
			  enum MHD_RequestTerminationCode code)
{
	struct pg_server *server = cls;
	struct pg_exchange *exchange = *context;

	if (!exchange)
		return;
	exchange->client->receiving = exchange->client->sending = 0;
	pg_client_enter(exchange->client, PG_CLIENT_RECEIVING);
	if (exchange->work)
		pg_work_leave(server->agent, exchange->work);
	free(exchange->body);
	free(exchange);
	*context = NULL;
}
