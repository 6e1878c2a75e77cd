/* SPDX-License-Identifier: Apache-2.0 */
/* A request as the handlers see it, and the table of routes that finds the handler. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent.h"
#include "caller.h"
#include "policy/policy.h"

/* A request is a policy and little more. */
#define PG_REQUEST_MAX (PG_POLICY_DOCUMENT_MAX + 64UL * 1024)

#define PG_QUERY_MAX 8

struct pg_query_value {
	const char *name, *value;
};

struct pg_request {
	const char *method, *path;
	const char *name; /* the part of the path that is a name; NULL: none */
	struct pg_query_value query[PG_QUERY_MAX];
	size_t query_count;
	const char *body;
	size_t size;
	const struct pg_caller *caller;
	uint64_t *resume; /* kept while it waits; 0: it has not waited yet */
	/* What it waits for instead; NULL: nothing. It ends with the request. */
	struct pg_work **work;
	bool last; /* the time is up: the reply cannot be to wait */
};

typedef void (*pg_handler)(struct pg_agent *agent, const struct pg_request *request,
			   struct pg_reply *reply);

/* X(method, path, handler, query names): "*" in a path is one part of any text, the name. */
#define PG_ROUTES(X) \
	X("GET", "/v1/capabilities", pg_api_capabilities, "") \
	X("POST", "/v1/validate", pg_api_validate, "") \
	X("GET", "/v1/environments", pg_api_list, "") \
	X("POST", "/v1/environments", pg_api_create, "") \
	X("GET", "/v1/environments/*", pg_api_show, "") \
	X("DELETE", "/v1/environments/*", pg_api_destroy, "processes") \
	X("PUT", "/v1/environments/*/phase", pg_api_phase, "") \
	X("PUT", "/v1/environments/*/policy", pg_api_policy, "") \
	X("GET", "/v1/environments/*/explain", pg_api_explain, "host phase") \
	X("POST", "/v1/environments/*/verify", pg_api_verify, "") \
	X("GET", "/v1/events", pg_api_events, "cursor environment follow")

#define PG_X(method, path, handler, query) \
	void handler(struct pg_agent *agent, const struct pg_request *request, \
		     struct pg_reply *reply);
PG_ROUTES(PG_X)
#undef PG_X

struct pg_route {
	const char *method, *path, *query;
	pg_handler handler;
};

/*
 * Finds the route; puts the name, if the path has one, into name (PG_NAME_MAX + 1 octets). NULL,
 * with the error in reply: there is none, or not with this method.
 */
const struct pg_route *pg_route_find(const char *method, const char *path, char *name,
				     struct pg_reply *reply);
/* -EINVAL, with the error in reply: a query field that the route does not have, or has twice. */
int pg_route_check_query(const struct pg_route *route, const struct pg_request *request,
			 struct pg_reply *reply) PG_MUST_CHECK;

const char *pg_request_query(const struct pg_request *request, const char *name);

/* The body as JSON, the policy in it left as it is. -EINVAL or -ENOMEM: the error is in reply. */
int pg_request_parse(const char *body, size_t size, struct pg_json **ret_json,
		     struct pg_reply *reply) PG_MUST_CHECK;

/*
 * Reads the body, an object with these fields. -EINVAL or -ENOMEM: the error is in reply. The
 * values live as long as *ret_json.
 */
int pg_request_read(const struct pg_request *request, const struct pg_json_field *fields,
		    size_t count, void *into, struct pg_json **ret_json,
		    struct pg_reply *reply) PG_MUST_CHECK;

/* The Environment of the request, if the caller may use it; NULL, with the error in reply. */
struct pg_managed *pg_request_environment(struct pg_agent *agent, const struct pg_request *request,
					  struct pg_reply *reply);

/* A failed operation of the layers below. */
void pg_reply_failure(struct pg_reply *reply, const char *object, const struct pg_error *err);
