/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

#define ENVIRONMENTS "/v1/environments"

static int check_name(const char *name, struct phasegate_error **ret_error)
{
	/* Within a path these would be taken for what they mean there. */
	if (!name || !*name || !strcmp(name, ".") || !strcmp(name, ".."))
		return client_bad_argument(ret_error, "an Environment has a name");
	return 0;
}

/* A request without a body whose reply is handed over as it is. */
static int get(struct phasegate_client *client, const struct client_request *request,
	       char **ret_json, struct phasegate_error **ret_error)
{
	client_autoreply struct client_reply reply = {0};
	int error = client_send(client, request, &reply, ret_error);

	if (error)
		return error;
	client_take(&reply, ret_json);
	return 0;
}

PHASEGATE_API int phasegate_capabilities(struct phasegate_client *client, char **ret_json,
					 struct phasegate_error **ret_error)
{
	const struct client_request request = {.method = "GET", .target = "/v1/capabilities"};

	return get(client, &request, ret_json, ret_error);
}

PHASEGATE_API int phasegate_list(struct phasegate_client *client, char **ret_json,
				 struct phasegate_error **ret_error)
{
	const struct client_request request = {.method = "GET", .target = ENVIRONMENTS};

	return get(client, &request, ret_json, ret_error);
}

PHASEGATE_API int phasegate_show(struct phasegate_client *client, const char *name, char **ret_json,
				 struct phasegate_error **ret_error)
{
	struct client_request request = {.method = "GET"};
	int error = check_name(name, ret_error);

	if (error)
		return error;
	client_target(&request, ENVIRONMENTS "/", name, NULL);
	return get(client, &request, ret_json, ret_error);
}

PHASEGATE_API int phasegate_validate(struct phasegate_client *client,
				     const struct phasegate_policy *policy, char **ret_json,
				     struct phasegate_error **ret_error)
{
	struct client_request request = {.method = "POST", .target = "/v1/validate"};
	pg_autojsonwriter struct pg_json_writer json = {0};
	client_autoreply struct client_reply reply = {0};
	int error;

	if (pg_json_writer_start(&json) < 0)
		return client_no_memory(ret_error);
	pg_json_write_open(&json, NULL, '{');
	error = client_write_policy(&json, policy, ret_error);
	if (error)
		return error;
	pg_json_write_close(&json, '}');
	error = client_send_json(client, &request, &json, &reply, ret_error);
	if (error)
		return error;
	client_take(&reply, ret_json);
	return 0;
}

static void write_members(struct pg_json_writer *json, const struct phasegate_create *wanted)
{
	if (wanted->member_count == 0)
		return;
	pg_json_write_open(json, "members", '[');
	for (size_t i = 0; i < wanted->member_count; i++) {
		const struct phasegate_member *member = &wanted->members[i];

		pg_json_write_open(json, NULL, '{');
		client_write_given(json, "cgroup", member->cgroup);
		client_write_given(json, "container", member->container);
		if (member->pid)
			pg_json_write_number(json, "pid", member->pid);
		client_write_given(json, "runtime", member->runtime);
		pg_json_write_close(json, '}');
	}
	pg_json_write_close(json, ']');
}

static void write_accept(struct pg_json_writer *json, const struct phasegate_create *wanted)
{
	if (wanted->accept_count == 0)
		return;
	pg_json_write_open(json, "accept", '[');
	for (size_t i = 0; i < wanted->accept_count; i++)
		pg_json_write_string(json, NULL, wanted->accept[i]);
	pg_json_write_close(json, ']');
}

static int write_create(struct pg_json_writer *json, const struct phasegate_create *wanted,
			struct phasegate_error **ret_error)
{
	int error;

	pg_json_write_open(json, NULL, '{');
	pg_json_write_string(json, "name", wanted->name);
	error = client_write_policy(json, &wanted->policy, ret_error);
	if (!error && wanted->dns)
		error = client_write_object(json, "dns", wanted->dns, ret_error);
	if (error)
		return error;
	write_members(json, wanted);
	if (wanted->attach)
		pg_json_write_bool(json, "attach", true);
	client_write_given(json, "phase", wanted->phase);
	client_write_given(json, "verifier", wanted->verifier);
	client_write_given(json, "member_traffic", wanted->member_traffic);
	if (wanted->omit_denials)
		pg_json_write_bool(json, "report_denials", false);
	write_accept(json, wanted);
	pg_json_write_close(json, '}');
	return 0;
}

PHASEGATE_API int phasegate_create(struct phasegate_client *client,
				   const struct phasegate_create *wanted, bool *ret_created,
				   char **ret_json, struct phasegate_error **ret_error)
{
	struct client_request request = {.method = "POST", .target = ENVIRONMENTS};
	pg_autojsonwriter struct pg_json_writer json = {0};
	client_autoreply struct client_reply reply = {0};
	int error = check_name(wanted->name, ret_error);

	if (error)
		return error;
	if (pg_json_writer_start(&json) < 0)
		return client_no_memory(ret_error);
	error = write_create(&json, wanted, ret_error);
	if (!error)
		error = client_send_json(client, &request, &json, &reply, ret_error);
	if (error)
		return error;
	if (ret_created)
		*ret_created = reply.status == 201;
	client_take(&reply, ret_json);
	return 0;
}

static int read_change(const struct client_reply *reply, struct phasegate_change *ret_change,
		       struct phasegate_error **ret_error)
{
	struct phasegate_change change = {0};
	const struct pg_json_value *root, *generation, *closed, *survivors;
	pg_autojson struct pg_json *json = NULL;
	int error;

	if (!ret_change)
		return 0;
	error = client_parse(reply, &json, ret_error);
	if (error)
		return error;
	root = pg_json_root(json);
	generation = pg_json_member(root, "generation");
	closed = pg_json_member(root, "closed");
	survivors = pg_json_member(root, "survivors");
	if (!generation || !pg_json_number_of(generation, PG_JSON_NUMBER_MAX, &change.generation))
		return client_bad_reply(ret_error, "a switch without generation");
	if (closed && !pg_json_number_of(closed, PG_JSON_NUMBER_MAX, &change.closed))
		return client_bad_reply(ret_error, "closed is no number");
	change.changed = pg_json_is_true(pg_json_member(root, "changed"));
	if (survivors && pg_json_is_array(survivors))
		change.survivors = pg_json_count(survivors);
	*ret_change = change;
	return 0;
}

/* Sends a request that changes what is in force. */
static int change(struct phasegate_client *client, struct client_request *request,
		  struct pg_json_writer *json, struct phasegate_change *ret_change, char **ret_json,
		  struct phasegate_error **ret_error)
{
	client_autoreply struct client_reply reply = {0};
	int error;

	pg_json_write_close(json, '}');
	error = client_send_json(client, request, json, &reply, ret_error);
	if (!error)
		error = read_change(&reply, ret_change, ret_error);
	if (error)
		return error;
	client_take(&reply, ret_json);
	return 0;
}

PHASEGATE_API int phasegate_set_phase(struct phasegate_client *client, const char *name,
				      const struct phasegate_set_phase *wanted,
				      struct phasegate_change *ret_change, char **ret_json,
				      struct phasegate_error **ret_error)
{
	struct client_request request = {.method = "PUT"};
	pg_autojsonwriter struct pg_json_writer json = {0};
	int error = check_name(name, ret_error);

	if (error)
		return error;
	if (wanted->lease_then && !wanted->lease_seconds)
		return client_bad_argument(ret_error, "lease_then needs lease_seconds");
	if (pg_json_writer_start(&json) < 0)
		return client_no_memory(ret_error);
	client_target(&request, ENVIRONMENTS "/", name, "/phase");
	pg_json_write_open(&json, NULL, '{');
	client_write_given(&json, "phase", wanted->phase);
	if (wanted->expected_generation != PHASEGATE_ANY_GENERATION)
		pg_json_write_number(&json, "expected_generation", wanted->expected_generation);
	client_write_given(&json, "survivors", wanted->survivors);
	if (wanted->lease_seconds) {
		pg_json_write_open(&json, "lease", '{');
		pg_json_write_number(&json, "seconds", wanted->lease_seconds);
		client_write_given(&json, "then", wanted->lease_then);
		pg_json_write_close(&json, '}');
	}
	return change(client, &request, &json, ret_change, ret_json, ret_error);
}

PHASEGATE_API int phasegate_update(struct phasegate_client *client, const char *name,
				   const struct phasegate_policy *policy,
				   uint64_t expected_generation,
				   struct phasegate_change *ret_change, char **ret_json,
				   struct phasegate_error **ret_error)
{
	struct client_request request = {.method = "PUT"};
	pg_autojsonwriter struct pg_json_writer json = {0};
	int error = check_name(name, ret_error);

	if (error)
		return error;
	if (pg_json_writer_start(&json) < 0)
		return client_no_memory(ret_error);
	client_target(&request, ENVIRONMENTS "/", name, "/policy");
	pg_json_write_open(&json, NULL, '{');
	error = client_write_policy(&json, policy, ret_error);
	if (error)
		return error;
	if (expected_generation != PHASEGATE_ANY_GENERATION)
		pg_json_write_number(&json, "expected_generation", expected_generation);
	return change(client, &request, &json, ret_change, ret_json, ret_error);
}

PHASEGATE_API int phasegate_destroy(struct phasegate_client *client, const char *name,
				    const char *processes, struct phasegate_error **ret_error)
{
	struct client_request request = {.method = "DELETE"};
	int error = check_name(name, ret_error);

	if (error)
		return error;
	client_target(&request, ENVIRONMENTS "/", name, NULL);
	client_query(&request, "processes", processes);
	return get(client, &request, NULL, ret_error);
}

PHASEGATE_API int phasegate_explain(struct phasegate_client *client, const char *name,
				    const char *host, const char *phase, bool *ret_allowed,
				    char **ret_json, struct phasegate_error **ret_error)
{
	struct client_request request = {.method = "GET"};
	client_autoreply struct client_reply reply = {0};
	pg_autojson struct pg_json *json = NULL;
	int error = check_name(name, ret_error);

	if (error)
		return error;
	client_target(&request, ENVIRONMENTS "/", name, "/explain");
	client_query(&request, "host", host);
	client_query(&request, "phase", phase);
	error = client_send(client, &request, &reply, ret_error);
	if (!error)
		error = client_parse(&reply, &json, ret_error);
	if (error)
		return error;
	if (ret_allowed) {
		const struct pg_json_value *root = pg_json_root(json);

		*ret_allowed = pg_json_is_true(pg_json_member(root, "allowed")) &&
			       !pg_json_is_true(pg_json_member(root, "denied"));
	}
	client_take(&reply, ret_json);
	return 0;
}

static int read_verdict(const struct client_reply *reply, enum phasegate_verdict *ret_verdict,
			struct phasegate_error **ret_error)
{
	const struct pg_json_value *result;
	pg_autojson struct pg_json *json = NULL;
	const char *word;
	int error = client_parse(reply, &json, ret_error);

	if (error)
		return error;
	result = pg_json_member(pg_json_root(json), "result");
	word = result ? pg_json_string_of(result) : NULL;
	if (!word)
		return client_bad_reply(ret_error, "a verification without result");
	if (!strcmp(word, "enforced"))
		*ret_verdict = PHASEGATE_ENFORCED;
	else if (!strcmp(word, "not_enforced"))
		*ret_verdict = PHASEGATE_NOT_ENFORCED;
	else
		*ret_verdict = PHASEGATE_INCONCLUSIVE;
	return 0;
}

static void write_verify(struct pg_json_writer *json, const struct phasegate_verify *wanted)
{
	client_write_given(json, "allowed", wanted->allowed);
	client_write_given(json, "blocked", wanted->blocked);
	if (wanted->without_count == 0)
		return;
	pg_json_write_open(json, "without", '[');
	for (size_t i = 0; i < wanted->without_count; i++)
		pg_json_write_string(json, NULL, wanted->without[i]);
	pg_json_write_close(json, ']');
}

PHASEGATE_API int phasegate_verify(struct phasegate_client *client, const char *name,
				   const struct phasegate_verify *wanted,
				   enum phasegate_verdict *ret_verdict, char **ret_json,
				   struct phasegate_error **ret_error)
{
	struct client_request request = {.method = "POST"};
	pg_autojsonwriter struct pg_json_writer json = {0};
	client_autoreply struct client_reply reply = {0};
	int error = check_name(name, ret_error);

	if (error)
		return error;
	if (pg_json_writer_start(&json) < 0)
		return client_no_memory(ret_error);
	client_target(&request, ENVIRONMENTS "/", name, "/verify");
	pg_json_write_open(&json, NULL, '{');
	if (wanted)
		write_verify(&json, wanted);
	pg_json_write_close(&json, '}');
	error = client_send_json(client, &request, &json, &reply, ret_error);
	if (!error)
		error = read_verdict(&reply, ret_verdict, ret_error);
	if (error)
		return error;
	client_take(&reply, ret_json);
	return 0;
}
