/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "request.h"
#include "verify.h"

struct wanted {
	const char *allowed, *blocked;
	const struct pg_json_value *without;
};

static const struct pg_json_field fields[] = {
	PG_JSON_FIELD(struct wanted, allowed, PG_JSON_STRING, .max = 300),
	PG_JSON_FIELD(struct wanted, blocked, PG_JSON_STRING, .max = 300),
	PG_JSON_FIELD(struct wanted, without, PG_JSON_ARRAY, .max = PG_VERIFY_VECTOR_COUNT),
};

static int refuse(struct pg_reply *reply, const char *object, const char *form)
{
	return pg_reply_error(reply, PG_API_REQUEST_INVALID, object, NULL,
			      "a destination is written %s", form);
}

/* ADDRESS:PORT, or NAME:PORT where a name will do. */
static int read_target(const char *text, bool names, const char *object,
		       struct pg_verify_target *target, struct pg_reply *reply)
{
	const char *form = names ? "HOST:PORT" : "ADDRESS:PORT";
	const char *colon = text ? strrchr(text, ':') : NULL;
	unsigned long port;
	char *end;

	if (!text)
		return 0;
	target->given = true;
	snprintf(target->text, sizeof(target->text), "%s", text);
	if (pg_endpoint_parse(text, 0, &target->endpoint) == 0)
		return target->endpoint.port ? 0 : refuse(reply, object, form);
	if (!names || !colon || colon[1] < '0' || colon[1] > '9')
		return refuse(reply, object, form);
	port = strtoul(colon + 1, &end, 10);
	if (*end || port == 0 || port > UINT16_MAX || colon == text ||
	    (size_t)(colon - text) >= sizeof(target->name) ||
	    strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") !=
		    (size_t)(colon - text))
		return refuse(reply, object, form);
	memcpy(target->name, text, (size_t)(colon - text));
	target->endpoint.port = htons((uint16_t)port);
	return 0;
}

static void use_address(struct pg_verify_target *target, const struct pg_addr *addr)
{
	target->given = true;
	target->endpoint = (struct pg_endpoint){.addr = *addr, .port = htons(PG_PORT_HTTPS)};
	pg_endpoint_format(&target->endpoint, target->text);
}

static void choose_blocked(const struct pg_config *config, const struct pg_phase_policy *phase,
			   struct pg_verify_target *target)
{
	struct pg_addr addr;

	if (pg_verify_find_blocked(phase, true, true, &addr))
		use_address(target, &addr);
	else if (config->never_allow_count)
		use_address(target, &config->never_allow[0].addr);
}

/* The first entry that is one destination. */
static void choose_allowed(const struct pg_phase_policy *phase, struct pg_verify_target *target)
{
	for (size_t i = 0; phase->entries && i < phase->entries->count; i++) {
		const struct pg_entry *entry = &phase->entries->items[i];

		switch (entry->kind) {
		case PG_ENTRY_IP4:
		case PG_ENTRY_IP6:
			use_address(target, &entry->prefix.addr);
			return;
		case PG_ENTRY_HOST:
			target->given = true;
			snprintf(target->name, sizeof(target->name), "%s", entry->name);
			snprintf(target->text, sizeof(target->text), "%s:%d", target->name,
				 PG_PORT_HTTPS);
			target->endpoint.port = htons(PG_PORT_HTTPS);
			return;
		case PG_ENTRY_WILDCARD:
		case PG_ENTRY_CIDR4:
		case PG_ENTRY_CIDR6:
			break;
		}
	}
}

static int read_without(const struct pg_json_value *array, unsigned int *without,
			struct pg_reply *reply)
{
	const struct pg_json_value *value = array ? pg_json_first(array) : NULL;

	for (; value; value = pg_json_next(value)) {
		const char *name = pg_json_string_of(value);
		enum pg_verify_vector vector;

		if (!name || pg_verify_vector_parse(name, &vector) < 0)
			return pg_reply_error(
				reply, PG_API_REQUEST_INVALID, "/without",
				"leave it out: the reply has the names of all vectors",
				"there is no vector \"%s\"", name ? name : "");
		*without |= PG_VERIFY_BIT(vector);
	}
	return 0;
}

static int read_targets(struct pg_agent *agent, const struct pg_request *request,
			const struct pg_managed *managed,
			struct pg_verify_target targets[PG_VERIFY_COUNT], unsigned int *without,
			struct pg_reply *reply)
{
	const struct pg_policy *policy = pg_environment_policy(managed->environment);
	const struct pg_phase_policy *phase =
		&policy->phases[pg_environment_phase(managed->environment)];
	pg_autojson struct pg_json *json = NULL;
	struct wanted wanted = {0};
	int error = 0;

	/* The body may be left out. */
	if (request->size)
		error = pg_request_read(request, fields, PG_ARRAY_SIZE(fields), &wanted, &json,
					reply);
	if (!error)
		error = read_target(wanted.allowed, true, "/allowed", &targets[PG_VERIFY_ALLOWED],
				    reply);
	if (!error)
		error = read_target(wanted.blocked, false, "/blocked", &targets[PG_VERIFY_BLOCKED],
				    reply);
	if (!error)
		error = read_without(wanted.without, without, reply);
	if (error)
		return error;
	if (!wanted.allowed && !pg_environment_denied(managed->environment))
		choose_allowed(phase, &targets[PG_VERIFY_ALLOWED]);
	if (!wanted.blocked)
		choose_blocked(agent->config, phase, &targets[PG_VERIFY_BLOCKED]);
	return 0;
}

static void start(struct pg_agent *agent, const struct pg_request *request,
		  struct pg_managed *managed, struct pg_reply *reply)
{
	struct pg_verify_target targets[PG_VERIFY_COUNT] = {0};
	struct pg_error err = {};
	unsigned int without = 0;
	int error;

	if (pg_environment_member_gone(managed->environment, 0)) {
		pg_reply_error(reply, PG_API_MEMBER_NOT_FOUND, request->name,
			       "start it again, or destroy the Environment",
			       "the member %s is gone, so there is nothing to try it from",
			       pg_environment_member(managed->environment, 0));
		return;
	}
	if (read_targets(agent, request, managed, targets, &without, reply) < 0)
		return;
	error = pg_verification_start(agent, managed, targets, without, request->resume, &err);
	if (error == -EBUSY)
		pg_reply_error(reply, PG_API_TOO_MANY_CLIENTS, NULL, "wait and try again", "%s",
			       err.text);
	else if (error)
		pg_reply_failure(reply, request->name, &err);
	else
		reply->wait = true;
}

void pg_api_verify(struct pg_agent *agent, const struct pg_request *request, struct pg_reply *reply)
{
	struct pg_managed *managed = pg_request_environment(agent, request, reply);
	struct pg_verification *verification = pg_verification_find(agent, *request->resume);
	struct pg_json_writer *json;

	/* Meanwhile it was destroyed, and another has its name. */
	if (managed && verification &&
	    verification->environment_id != pg_environment_id(managed->environment)) {
		managed = NULL;
		pg_reply_error(reply, PG_API_ENVIRONMENT_NOT_FOUND, request->name, NULL,
			       "the Environment was destroyed meanwhile");
	}
	if (managed && !verification && !*request->resume) {
		start(agent, request, managed, reply);
		return;
	}
	if (managed && verification && !verification->done && !request->last) {
		reply->wait = true;
		return;
	}
	if (managed && !verification) {
		pg_reply_error(reply, PG_API_INTERNAL, request->name, NULL,
			       "the verification is gone");
		return;
	}
	json = managed ? pg_reply_open(reply, 200) : NULL;
	if (json) {
		pg_verification_describe(verification, managed, json);
		pg_reply_close(reply);
	}
	if (verification)
		pg_verification_end(verification);
}
