/* SPDX-License-Identifier: Apache-2.0 */
#include "create.h"

#include <errno.h>
#include <string.h>

#include <phasegate/abi/member.h>

#include "base/hash.h"
#include "environment/record.h"
#include "exposures.h"

/* The words as they stand in the request. */
struct words {
	const char *name, *phase, *verifier, *member_traffic;
	struct pg_policy_input input;
	const struct pg_json_value *members, *dns, *accept;
	bool attach, report_denials;
};

static const struct pg_json_field fields[] = {
	PG_JSON_FIELD(struct words, name, PG_JSON_STRING, .required = true),
	PG_POLICY_INPUT_FIELDS(offsetof(struct words, input)),
	PG_JSON_FIELD(struct words, members, PG_JSON_ARRAY, .max = PG_MEMBERS_MAX),
	PG_JSON_FIELD(struct words, attach, PG_JSON_BOOL),
	PG_JSON_FIELD(struct words, phase, PG_JSON_STRING),
	PG_JSON_FIELD(struct words, verifier, PG_JSON_STRING),
	PG_JSON_FIELD(struct words, member_traffic, PG_JSON_STRING),
	PG_JSON_FIELD(struct words, report_denials, PG_JSON_BOOL),
	PG_JSON_FIELD(struct words, dns, PG_JSON_OBJECT),
	PG_JSON_FIELD(struct words, accept, PG_JSON_ARRAY, .max = PG_EXPOSURE_COUNT),
};

struct dns_words {
	uint64_t floor_s, grace_s, wildcard_per_minute, addresses_max;
	bool forbid_private;
	const char *denied;
	const struct pg_json_value *own_resolvers;
};

static const struct pg_json_field dns_fields[] = {
	PG_JSON_FIELD(struct dns_words, floor_s, PG_JSON_NUMBER, .max = PG_LEARNED_SETTING_MAX),
	PG_JSON_FIELD(struct dns_words, grace_s, PG_JSON_NUMBER, .max = PG_LEARNED_SETTING_MAX),
	PG_JSON_FIELD(struct dns_words, wildcard_per_minute, PG_JSON_NUMBER, .max = 1000000),
	PG_JSON_FIELD(struct dns_words, addresses_max, PG_JSON_NUMBER, .max = PG_LEARNED_MAX),
	PG_JSON_FIELD(struct dns_words, forbid_private, PG_JSON_BOOL),
	PG_JSON_FIELD(struct dns_words, denied, PG_JSON_STRING),
	PG_JSON_FIELD(struct dns_words, own_resolvers, PG_JSON_ARRAY, .max = PG_NAMESERVERS_MAX),
};

/* One of two words; absent leaves *ret_second. */
static int read_choice(const char *word, const char *first, const char *second, const char *pointer,
		       bool *ret_second, struct pg_reply *reply)
{
	if (!word)
		return 0;
	*ret_second = strcmp(word, second) == 0;
	if (*ret_second || strcmp(word, first) == 0)
		return 0;
	return pg_reply_error(reply, PG_API_REQUEST_INVALID, pointer, NULL, "it is %s or %s", first,
			      second);
}

static int read_own_resolvers(const struct pg_json_value *array, struct pg_create_request *request,
			      struct pg_reply *reply)
{
	for (const struct pg_json_value *e = array ? pg_json_first(array) : NULL; e;
	     e = pg_json_next(e)) {
		const char *text = pg_json_string_of(e);

		if (!text ||
		    pg_endpoint_parse(text, PG_PORT_DNS,
				      &request->own_resolvers[request->own_resolver_count]) < 0)
			return pg_reply_error(reply, PG_API_REQUEST_INVALID, "/dns/own_resolvers",
					      NULL, "each is the address of a nameserver");
		request->own_resolver_count++;
	}
	return 0;
}

static int read_dns(const struct pg_json *json, const struct pg_json_value *object,
		    struct pg_create_request *request, struct pg_reply *reply)
{
	struct pg_dns_settings *settings = &request->dns;
	struct dns_words words = {.floor_s = settings->floor_s,
				  .grace_s = settings->grace_s,
				  .wildcard_per_minute = settings->wildcard_per_minute,
				  .addresses_max = settings->addresses_max};
	struct pg_json_problem problem = {};
	bool refused = false;

	if (!object)
		return 0;
	if (pg_json_read(json, object, "/dns", dns_fields, PG_ARRAY_SIZE(dns_fields), &words,
			 &problem) < 0) {
		pg_reply_problem(reply, &problem);
		return -EINVAL;
	}
	if (words.wildcard_per_minute == 0 || words.addresses_max == 0)
		return pg_reply_error(reply, PG_API_REQUEST_INVALID, "/dns", NULL,
				      "wildcard_per_minute and addresses_max are at least 1");
	if (read_choice(words.denied, "nxdomain", "refused", "/dns/denied", &refused, reply) < 0)
		return -EINVAL;
	settings->floor_s = (unsigned int)words.floor_s;
	settings->grace_s = (unsigned int)words.grace_s;
	settings->wildcard_per_minute = (unsigned int)words.wildcard_per_minute;
	settings->addresses_max = (unsigned int)words.addresses_max;
	settings->forbid_private = words.forbid_private;
	settings->denial = refused ? PG_DENIAL_REFUSED : PG_DENIAL_NXDOMAIN;
	return read_own_resolvers(words.own_resolvers, request, reply);
}

static int read_words(const struct pg_json *json, const struct words *words,
		      struct pg_create_request *request, struct pg_reply *reply)
{
	if (!pg_record_name_valid(words->name))
		return pg_reply_error(reply, PG_API_NAME_INVALID, "/name", NULL,
				      "this is not a name that an Environment can have");
	if (words->phase && pg_phase_parse(words->phase, &request->phase) < 0)
		return pg_reply_error(reply, PG_API_REQUEST_INVALID, "/phase", NULL,
				      "the phases are setup, run and verifier");
	if (words->verifier && pg_verifier_parse(words->verifier, &request->verifier) < 0)
		return pg_reply_error(reply, PG_API_REQUEST_INVALID, "/verifier", NULL,
				      "verifier is host, same or new");
	if (request->phase == PG_PHASE_VERIFIER && request->verifier == PG_VERIFIER_HOST)
		return pg_reply_error(reply, PG_API_VERIFIER_ON_HOST, "/phase", NULL,
				      "verification runs on the host, so the phase has no"
				      " meaning here");
	if (read_choice(words->member_traffic, "allow", "deny", "/member_traffic", &request->apart,
			reply) < 0)
		return -EINVAL;
	request->name = words->name;
	request->members = words->members;
	request->attach = words->attach;
	request->report_denials = words->report_denials;
	if (pg_exposures_read(words->accept, &request->accept, reply) < 0)
		return -EINVAL;
	return read_dns(json, words->dns, request, reply);
}

/* A fixed key: the digest is compared with one of an earlier run of the agent. Whoever finds two
 * requests with the same has only taken one of his own for the other. */
static const struct pg_hash_key digest_key = {.word = {0x7068617365676174, 0x652d726571756573}};

static uint64_t digest_text(uint64_t digest, const char *text, size_t size)
{
	const uint64_t both[2] = {digest, pg_hash(&digest_key, text, size)};

	return pg_hash(&digest_key, both, sizeof(both));
}

static uint64_t digest_value(uint64_t digest, const struct pg_json_value *value)
{
	pg_autofree char *text = value ? pg_json_print(value) : NULL;

	return digest_text(digest, text ? text : "", text ? strlen(text) : 0);
}

/* Of the policy as it is written, and of all else as it is meant. */
static uint64_t make_digest(const struct pg_json *json, const struct pg_create_request *request)
{
	const uint64_t numbers[] = {
		request->attach,
		request->phase,
		request->verifier,
		request->apart,
		request->report_denials,
		request->dns.floor_s,
		request->dns.grace_s,
		request->dns.wildcard_per_minute,
		request->dns.forbid_private,
		request->dns.denial,
		request->dns.addresses_max,
	};
	const char *form = request->input.form ? request->input.form : "bare";
	size_t size;
	const char *policy = pg_json_skipped(json, &size);
	uint64_t digest = digest_text(0, (const char *)numbers, sizeof(numbers));

	digest = digest_text(digest, form, strlen(form));
	digest = digest_text(digest, policy, size);
	digest = digest_value(digest, request->input.allow);
	if (request->own_resolver_count > 0)
		digest = digest_text(digest, (const char *)request->own_resolvers,
				     sizeof(request->own_resolvers));
	if (request->accept)
		digest = digest_text(digest, (const char *)&request->accept,
				     sizeof(request->accept));
	return digest_value(digest, request->members);
}

int pg_create_request_read(const struct pg_json *json, struct pg_create_request *request,
			   struct pg_reply *reply)
{
	struct words words = {.report_denials = true};
	struct pg_json_problem problem = {};
	int error;

	*request = (struct pg_create_request){.verifier = PG_VERIFIER_SAME,
					      .dns = PG_DNS_SETTINGS_DEFAULT};
	if (pg_json_read(json, pg_json_root(json), "", fields, PG_ARRAY_SIZE(fields), &words,
			 &problem) < 0) {
		pg_reply_problem(reply, &problem);
		return -EINVAL;
	}
	error = read_words(json, &words, request, reply);
	if (error)
		return error;
	request->input = words.input;
	error = pg_policy_input_parse(json, &request->input, reply);
	if (!error)
		request->digest = make_digest(json, request);
	return error;
}

void pg_create_request_clear(struct pg_create_request *request)
{
	pg_policy_input_clear(&request->input);
}
