/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the state of a kept Environment. */
#include <errno.h>
#include <string.h>

#include "base/file.h"
#include "base/vector.h"
#include "json/json.h"
#include "record.h"
#include "state_text.h"

/* Besides the note: members, hosts. A name and an address for each host, of any number. */
#define STATE_MAX    (64UL * 1024 * 1024)
#define STATE_DEPTH  6
#define STATE_VALUES 2097152UL

struct text {
	uint64_t version, abi, state, flags, owner, held, refused_rights;
	const char *intent, *pins, *note;
	bool apart, report_denials, forbid_private;
	uint64_t floor_s, grace_s, wildcard_per_minute, denial, addresses_max, told_resolvers;
	const struct pg_json_value *members, *listener, *banks, *resolvers, *own_resolvers, *hosts;
};

#define FIELD(member, type, ...) PG_JSON_FIELD(struct text, member, type, ##__VA_ARGS__)
static const struct pg_json_field text_fields[] = {
	FIELD(version, PG_JSON_NUMBER, .required = true),
	FIELD(abi, PG_JSON_NUMBER, .required = true),
	FIELD(intent, PG_JSON_STRING, .required = true),
	FIELD(pins, PG_JSON_STRING, .required = true),
	FIELD(state, PG_JSON_NUMBER, .required = true, .max = PG_ENVIRONMENT_MAX - 1),
	FIELD(flags, PG_JSON_NUMBER, .required = true, .max = UINT32_MAX),
	FIELD(members, PG_JSON_ARRAY, .required = true, .max = PG_MEMBERS_MAX),
	FIELD(held, PG_JSON_DECIMAL),
	FIELD(listener, PG_JSON_ARRAY, .max = 2),
	FIELD(banks, PG_JSON_ARRAY, .required = true, .max = PG_BANK_COUNT),
	FIELD(apart, PG_JSON_BOOL, .required = true),
	FIELD(report_denials, PG_JSON_BOOL, .required = true),
	FIELD(floor_s, PG_JSON_NUMBER, .required = true, .max = PG_LEARNED_SETTING_MAX),
	FIELD(grace_s, PG_JSON_NUMBER, .required = true, .max = PG_LEARNED_SETTING_MAX),
	FIELD(wildcard_per_minute, PG_JSON_NUMBER, .required = true, .max = UINT32_MAX),
	FIELD(forbid_private, PG_JSON_BOOL, .required = true),
	FIELD(denial, PG_JSON_NUMBER, .required = true, .max = PG_DENIAL_REFUSED),
	FIELD(addresses_max, PG_JSON_NUMBER, .required = true, .max = UINT32_MAX),
	FIELD(resolvers, PG_JSON_ARRAY, .required = true, .max = PG_NAMESERVERS_MAX),
	FIELD(own_resolvers, PG_JSON_ARRAY, .required = true, .max = PG_NAMESERVERS_MAX),
	FIELD(told_resolvers, PG_JSON_NUMBER, .max = PG_NAMESERVERS_MAX),
	FIELD(hosts, PG_JSON_ARRAY, .required = true),
	FIELD(owner, PG_JSON_NUMBER, .required = true, .max = UINT32_MAX),
	FIELD(refused_rights, PG_JSON_DECIMAL),
	FIELD(note, PG_JSON_STRING, .required = true),
};
#undef FIELD

struct slot_text {
	uint64_t compiled, mode, set, tables, learned, flags, set_id, learned_id;
};

#define FIELD(member, maximum) \
	PG_JSON_FIELD(struct slot_text, member, PG_JSON_NUMBER, .required = true, .max = (maximum))
static const struct pg_json_field slot_fields[] = {
	FIELD(compiled, PG_PHASE_COUNT), FIELD(mode, UINT8_MAX),	FIELD(set, UINT32_MAX),
	FIELD(tables, UINT8_MAX),	 FIELD(learned, UINT32_MAX),	FIELD(flags, UINT8_MAX),
	FIELD(set_id, UINT32_MAX),	 FIELD(learned_id, UINT32_MAX),
};
#undef FIELD

static int parse_number(const char *text, uint64_t *ret_number)
{
	char *end;

	if (!text || !*text)
		return -EINVAL;
	errno = 0;
	*ret_number = strtoull(text, &end, 10);
	return *end || errno ? -EINVAL : 0;
}

static int read_members(const struct pg_json_value *array, struct pg_saved *saved)
{
	const struct pg_json_value *item;

	for (item = pg_json_first(array); item; item = pg_json_next(item))
		if (parse_number(pg_json_string_of(item), &saved->members[saved->member_count++]))
			return -EINVAL;
	return 0;
}

static int read_endpoints(const struct pg_json_value *array, struct pg_endpoint *endpoints,
			  size_t *ret_count)
{
	const struct pg_json_value *item;
	size_t count = 0;

	for (item = pg_json_first(array); item; item = pg_json_next(item)) {
		const char *text = pg_json_string_of(item);

		if (!text || pg_endpoint_parse(text, 0, &endpoints[count++]))
			return -EINVAL;
	}
	*ret_count = count;
	return 0;
}

static int read_hosts(const struct pg_json_value *array, struct pg_settings *settings)
{
	const struct pg_json_value *name = pg_json_first(array), *address;

	for (; name; name = pg_json_next(address)) {
		const char *text = pg_json_string_of(name);
		struct pg_fixed_host *host;

		address = pg_json_next(name);
		if (!text || !address || !pg_json_string_of(address))
			return -EINVAL;
		if (pg_vector_grow(&settings->hosts, settings->host_count, &settings->host_room,
				   sizeof(*settings->hosts)))
			return -ENOMEM;
		host = &settings->hosts[settings->host_count];
		if (pg_addr_parse(pg_json_string_of(address), &host->addr))
			return -EINVAL;
		host->name = strdup(text);
		if (!host->name)
			return -ENOMEM;
		settings->host_count++;
	}
	return 0;
}

static int read_bank(const struct pg_json *json, const struct pg_json_value *value,
		     struct pg_saved_bank *bank, struct pg_json_problem *problem)
{
	const struct pg_json_value *item;
	size_t phase = 0;

	if (!pg_json_is_array(value))
		return 0;
	if (pg_json_count(value) != PG_PHASE_COUNT)
		return pg_json_fail(problem, "/banks", NULL, "a bank has not all phases");
	for (item = pg_json_first(value); item; item = pg_json_next(item), phase++) {
		struct slot_text text = {};
		int error = pg_json_read(json, item, "/banks", slot_fields,
					 PG_ARRAY_SIZE(slot_fields), &text, problem);

		if (error)
			return error;
		bank->compiled[phase] = (unsigned int)text.compiled;
		bank->slots[phase] = (struct pg_phase_slot){
			.set = (__u32)text.set,
			.learned = (__u32)text.learned,
			.mode = (__u8)text.mode,
			.tables = (__u8)text.tables,
			.flags = (__u8)text.flags,
		};
		bank->set_ids[phase] = (uint32_t)text.set_id;
		bank->learned_ids[phase] = (uint32_t)text.learned_id;
	}
	bank->there = true;
	return 0;
}

static int read_values(const struct pg_json *json, const struct text *text, struct pg_saved *saved,
		       struct pg_json_problem *problem)
{
	struct pg_settings *settings = &saved->settings;
	const struct pg_json_value *item;
	size_t bank = 0, listeners = 0;
	int error = 0;

	if (pg_intent_parse(text->intent, &saved->intent) || read_members(text->members, saved) ||
	    (text->listener && read_endpoints(text->listener, saved->listener, &listeners)) ||
	    read_endpoints(text->resolvers, settings->resolvers, &settings->resolver_count) ||
	    read_endpoints(text->own_resolvers, settings->own_resolvers,
			   &settings->own_resolver_count) ||
	    text->told_resolvers > settings->own_resolver_count)
		return pg_json_fail(problem, "", NULL, "a value does not fit");
	for (item = pg_json_first(text->banks); item && !error; item = pg_json_next(item))
		error = read_bank(json, item, &saved->banks[bank++], problem);
	if (!error)
		error = read_hosts(text->hosts, settings);
	return error;
}

static int take_text(const struct text *text, struct pg_saved *saved)
{
	struct pg_settings *settings = &saved->settings;

	saved->state = (uint32_t)text->state;
	saved->flags = (uint32_t)text->flags;
	saved->held = text->held;
	settings->apart = text->apart;
	settings->attached = saved->flags & PG_HEADER_ATTACHED;
	settings->report_denials = text->report_denials;
	settings->owner = (uid_t)text->owner;
	settings->refused_rights = text->refused_rights;
	settings->told_resolver_count = text->told_resolvers;
	settings->dns = (struct pg_dns_settings){
		.floor_s = (unsigned int)text->floor_s,
		.grace_s = (unsigned int)text->grace_s,
		.wildcard_per_minute = (unsigned int)text->wildcard_per_minute,
		.forbid_private = text->forbid_private,
		.denial = (enum pg_denial)text->denial,
		.addresses_max = (unsigned int)text->addresses_max,
	};
	saved->pins = strdup(text->pins);
	settings->note = strdup(text->note);
	return saved->pins && settings->note ? 0 : -ENOMEM;
}

/* A state is one that was taken, and there is a first member, whose id is the Environment's. */
static int check_values(const struct pg_saved *saved, struct pg_json_problem *problem)
{
	if (saved->state == 0)
		return pg_json_fail(problem, "/state", NULL, "0 is the state of no Environment");
	if (saved->member_count == 0)
		return pg_json_fail(problem, "/members", NULL, "there is no member");
	return 0;
}

static int read_text(const char *content, size_t size, struct pg_saved *saved,
		     struct pg_json_problem *problem)
{
	const struct pg_json_limits limits = {STATE_MAX, STATE_DEPTH, STATE_VALUES, NULL};
	pg_autojson struct pg_json *json = NULL;
	struct text text = {};
	int error = pg_json_parse(content, size, &limits, &json, problem);

	if (!error)
		error = pg_json_read(json, pg_json_root(json), "", text_fields,
				     PG_ARRAY_SIZE(text_fields), &text, problem);
	if (error)
		return error;
	if (text.version != PG_STATE_VERSION || text.abi != PG_ABI_VERSION)
		return pg_json_fail(problem, "/version", NULL,
				    "it is of another version (%u.%u, this is %u.%u)",
				    (unsigned int)text.version, (unsigned int)text.abi,
				    PG_STATE_VERSION, PG_ABI_VERSION);
	error = take_text(&text, saved);
	if (!error)
		error = read_values(json, &text, saved, problem);
	return error ? error : check_values(saved, problem);
}

int pg_saved_read(int record_fd, const char *name, struct pg_saved *ret_saved, struct pg_error *err)
{
	pg_autosaved struct pg_saved saved = {};
	struct pg_json_problem problem = {};
	pg_autofree char *content = NULL;
	size_t size;
	int error = pg_file_read_at(record_fd, PG_STATE_FILE, STATE_MAX, &content, &size, err);

	if (error)
		return error;
	error = read_text(content, size, &saved, &problem);
	if (error == -EINVAL)
		return pg_fail(err, -EPROTO,
			       "the state %s/%s/%s cannot be adopted: %s; nothing was changed: use"
			       " the version that wrote it",
			       PG_RECORD_ROOT, name, PG_STATE_FILE, problem.message);
	if (error)
		return pg_fail_errno(err, error, "reading the state of %s", name);
	*ret_saved = saved;
	saved = (struct pg_saved){};
	return 0;
}

bool pg_saved_is_foreign(int record_fd, const char *pins)
{
	static const char field[] = "\"pins\":\"";
	pg_autofree char *content = NULL;
	const size_t length = strlen(pins);
	const char *value;
	size_t size;

	if (pg_file_read_at(record_fd, PG_STATE_FILE, STATE_MAX, &content, &size, NULL))
		return false;
	value = memmem(content, size, field, strlen(field));
	if (!value)
		return false;
	value += strlen(field);
	size -= (size_t)(value - content);
	/* Cut off in the middle of it, it may be either. */
	return memchr(value, '"', size) &&
	       (size <= length || memcmp(value, pins, length) != 0 || value[length] != '"');
}
