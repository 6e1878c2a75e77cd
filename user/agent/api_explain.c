/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>

#include "policy/policy.h"
#include "request.h"

/* Longest text of a host: a name and its final dot. */
#define HOST_MAX 254

/* What is asked about. */
struct subject {
	bool is_address;
	struct pg_addr addr;
	char name[HOST_MAX + 1]; /* lower case, no final dot */
};

static int read_subject(const char *text, struct subject *subject, struct pg_reply *reply)
{
	size_t length = text ? strlen(text) : 0;

	if (length > 0 && length <= HOST_MAX && pg_addr_parse(text, &subject->addr) == 0) {
		subject->is_address = true;
		return 0;
	}
	if (length > 1 && text[length - 1] == '.')
		length--;
	if (length == 0 || length >= HOST_MAX)
		return pg_reply_error(reply, PG_API_REQUEST_INVALID, "host", NULL,
				      "host is a name or an address");
	for (size_t i = 0; i < length; i++) {
		const unsigned char c = (unsigned char)text[i];

		if (!isalnum(c) && c != '-' && c != '_' && c != '.')
			return pg_reply_error(reply, PG_API_REQUEST_INVALID, "host", NULL,
					      "host is a name in ASCII or an address, without"
					      " scheme, port and path");
		subject->name[i] = (char)tolower(c);
	}
	subject->name[length] = '\0';
	return 0;
}

/* "*.example.com": one or more labels before it. */
static bool has_suffix(const char *name, const char *suffix)
{
	const size_t length = strlen(name), ending = strlen(suffix);

	return length > ending + 1 && name[length - ending - 1] == '.' &&
	       strcmp(name + length - ending, suffix) == 0;
}

static bool matches(const struct pg_entry *entry, const struct subject *subject)
{
	switch (entry->kind) {
	case PG_ENTRY_HOST:
		return !subject->is_address && strcmp(entry->name, subject->name) == 0;
	case PG_ENTRY_WILDCARD:
		return !subject->is_address && has_suffix(subject->name, entry->name);
	case PG_ENTRY_IP4:
	case PG_ENTRY_IP6:
	case PG_ENTRY_CIDR4:
	case PG_ENTRY_CIDR6:
		return subject->is_address && pg_prefix_contains(&entry->prefix, &subject->addr);
	}
	return false;
}

static const struct pg_entry *find(const struct pg_entries *entries, const struct subject *subject)
{
	for (size_t i = 0; entries && i < entries->count; i++)
		if (matches(&entries->items[i], subject))
			return &entries->items[i];
	return NULL;
}

static bool is_never_allowed(const struct pg_config *config, const struct subject *subject)
{
	for (size_t i = 0; subject->is_address && i < config->never_allow_count; i++)
		if (pg_prefix_contains(&config->never_allow[i], &subject->addr))
			return true;
	return false;
}

static const char *describe_reason(const struct subject *subject, const struct pg_entry *entry)
{
	if (!entry)
		return subject->is_address
			       ? "no entry has the address; a name of the policy may resolve to it"
			       : "no entry has the name, so it is not resolved";
	return subject->is_address ? "an entry has the address"
				   : "an entry has the name: it is resolved, and its addresses are"
				     " allowed";
}

/* One phase as an object: whether it allows the subject, and by which entry. */
static void explain(const struct pg_config *config, const struct pg_phase_policy *phase,
		    const struct subject *subject, struct pg_json_writer *json)
{
	const struct pg_entry *entry = find(phase->entries, subject);
	pg_autofree char *text = entry ? pg_entry_format(entry) : NULL;
	bool allowed = phase->mode == PG_MODE_PUBLIC || entry;
	const char *reason;

	if (is_never_allowed(config, subject)) {
		allowed = false;
		reason = "the host's operator never allows this address";
	} else if (phase->mode == PG_MODE_PUBLIC) {
		reason = "the phase allows every destination";
	} else if (phase->mode == PG_MODE_NO_NETWORK) {
		reason = "the phase allows no destination";
	} else {
		reason = describe_reason(subject, entry);
	}
	pg_json_write_bool(json, "allowed", allowed);
	pg_json_write_string(json, "network_mode", pg_mode_name(phase->mode));
	pg_json_write_string(json, "entry", text);
	pg_json_write_string(json, "reason", reason);
}

static int read_phase(const char *text, enum pg_phase *phase, struct pg_reply *reply)
{
	if (!text || pg_phase_parse(text, phase) == 0)
		return 0;
	return pg_reply_error(reply, PG_API_REQUEST_INVALID, "phase", NULL,
			      "the phases are setup, run and verifier");
}

void pg_api_explain(struct pg_agent *agent, const struct pg_request *request,
		    struct pg_reply *reply)
{
	const struct pg_managed *managed = pg_request_environment(agent, request, reply);
	struct subject subject = {.is_address = false};
	const struct pg_policy *policy;
	struct pg_json_writer *json;
	enum pg_phase phase;

	if (!managed)
		return;
	phase = pg_environment_phase(managed->environment);
	policy = pg_environment_policy(managed->environment);
	if (read_subject(pg_request_query(request, "host"), &subject, reply) < 0 ||
	    read_phase(pg_request_query(request, "phase"), &phase, reply) < 0)
		return;
	json = pg_reply_open(reply, 200);
	if (!json)
		return;
	pg_json_write_string(json, "name", request->name);
	pg_json_write_string(json, "host", pg_request_query(request, "host"));
	pg_json_write_string(json, "phase", pg_phase_name(phase));
	pg_json_write_bool(json, "denied", pg_environment_denied(managed->environment));
	explain(agent->config, &policy->phases[phase], &subject, json);
	pg_json_write_open(json, "phases", '{');
	for (size_t i = 0; i < PG_PHASE_COUNT; i++) {
		pg_json_write_open(json, pg_phase_name((enum pg_phase)i), '{');
		explain(agent->config, &policy->phases[i], &subject, json);
		pg_json_write_close(json, '}');
	}
	pg_json_write_close(json, '}');
	pg_reply_close(reply);
}
