/* SPDX-License-Identifier: Apache-2.0 */
#include "state.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "json/write.h"
#include "policy/print.h"
#include "record.h"
#include "state_text.h"

static const char *const intent_names[] = {
	[PG_INTENT_NONE] = "none",
	[PG_INTENT_CREATE] = "create",
	[PG_INTENT_KILL] = "kill",
	[PG_INTENT_RELEASE] = "release",
};

int pg_intent_parse(const char *text, enum pg_intent *ret_intent)
{
	for (size_t i = 0; i < PG_ARRAY_SIZE(intent_names); i++) {
		if (!strcmp(text, intent_names[i])) {
			*ret_intent = (enum pg_intent)i;
			return 0;
		}
	}
	return -EINVAL;
}

void pg_settings_clear(struct pg_settings *settings)
{
	for (size_t i = 0; i < settings->host_count; i++)
		free(settings->hosts[i].name);
	free(settings->hosts);
	free(settings->note);
	*settings = (struct pg_settings){};
}

void pg_saved_clear(struct pg_saved *saved)
{
	free(saved->pins);
	pg_settings_clear(&saved->settings);
	*saved = (struct pg_saved){};
}

static void write_bank(struct pg_json_writer *json, const struct pg_saved_bank *bank)
{
	if (!bank->there) {
		pg_json_write_null(json, NULL);
		return;
	}
	pg_json_write_open(json, NULL, '[');
	for (size_t i = 0; i < PG_PHASE_COUNT; i++) {
		pg_json_write_open(json, NULL, '{');
		pg_json_write_number(json, "compiled", bank->compiled[i]);
		pg_json_write_number(json, "mode", bank->slots[i].mode);
		pg_json_write_number(json, "set", bank->slots[i].set);
		pg_json_write_number(json, "tables", bank->slots[i].tables);
		pg_json_write_number(json, "learned", bank->slots[i].learned);
		pg_json_write_number(json, "set_id", bank->set_ids[i]);
		pg_json_write_number(json, "learned_id", bank->learned_ids[i]);
		pg_json_write_number(json, "flags", bank->slots[i].flags);
		pg_json_write_close(json, '}');
	}
	pg_json_write_close(json, ']');
}

static void write_endpoints(struct pg_json_writer *json, const char *name,
			    const struct pg_endpoint *endpoints, size_t count)
{
	char text[PG_ADDR_TEXT];

	pg_json_write_open(json, name, '[');
	for (size_t i = 0; i < count; i++)
		pg_json_write_string(json, NULL, pg_endpoint_format(&endpoints[i], text));
	pg_json_write_close(json, ']');
}

static void write_settings(struct pg_json_writer *json, const struct pg_settings *settings)
{
	const struct pg_dns_settings *dns = &settings->dns;
	char text[PG_ADDR_TEXT];

	pg_json_write_bool(json, "apart", settings->apart);
	pg_json_write_bool(json, "report_denials", settings->report_denials);
	pg_json_write_number(json, "floor_s", dns->floor_s);
	pg_json_write_number(json, "grace_s", dns->grace_s);
	pg_json_write_number(json, "wildcard_per_minute", dns->wildcard_per_minute);
	pg_json_write_bool(json, "forbid_private", dns->forbid_private);
	pg_json_write_number(json, "denial", dns->denial);
	pg_json_write_number(json, "addresses_max", dns->addresses_max);
	write_endpoints(json, "resolvers", settings->resolvers, settings->resolver_count);
	write_endpoints(json, "own_resolvers", settings->own_resolvers,
			settings->own_resolver_count);
	pg_json_write_number(json, "told_resolvers", settings->told_resolver_count);
	pg_json_write_open(json, "hosts", '[');
	for (size_t i = 0; i < settings->host_count; i++) {
		pg_json_write_string(json, NULL, settings->hosts[i].name);
		pg_json_write_string(json, NULL, pg_addr_format(&settings->hosts[i].addr, text));
	}
	pg_json_write_close(json, ']');
	pg_json_write_number(json, "owner", settings->owner);
	pg_json_write_decimal(json, "refused_rights", settings->refused_rights);
	pg_json_write_string(json, "note", settings->note ? settings->note : "");
}

int pg_saved_write(int record_fd, const struct pg_saved *saved, struct pg_error *err)
{
	pg_autojsonwriter struct pg_json_writer json = {};
	pg_autofree char *text = NULL;
	size_t size;

	if (pg_json_writer_start(&json))
		return pg_fail(err, -ENOMEM, "not enough memory for the state");
	pg_json_write_open(&json, NULL, '{');
	pg_json_write_number(&json, "version", PG_STATE_VERSION);
	pg_json_write_number(&json, "abi", PG_ABI_VERSION);
	pg_json_write_string(&json, "intent", intent_names[saved->intent]);
	pg_json_write_string(&json, "pins", saved->pins);
	pg_json_write_number(&json, "state", saved->state);
	pg_json_write_number(&json, "flags", saved->flags);
	pg_json_write_open(&json, "members", '[');
	for (size_t i = 0; i < saved->member_count; i++)
		pg_json_write_decimal(&json, NULL, saved->members[i]);
	pg_json_write_close(&json, ']');
	if (saved->held)
		pg_json_write_decimal(&json, "held", saved->held);
	if (saved->listener[0].port)
		write_endpoints(&json, "listener", saved->listener, 2);
	pg_json_write_open(&json, "banks", '[');
	for (size_t i = 0; i < PG_BANK_COUNT; i++)
		write_bank(&json, &saved->banks[i]);
	pg_json_write_close(&json, ']');
	write_settings(&json, &saved->settings);
	pg_json_write_close(&json, '}');
	if (pg_json_writer_end(&json, &text, &size))
		return pg_fail(err, -ENOMEM, "not enough memory for the state");
	return pg_record_put(record_fd, PG_STATE_FILE, text, size, err);
}

static void policy_file(unsigned int bank, char name[static 32])
{
	snprintf(name, 32, "policy.%u.json", bank);
}

int pg_saved_policy_write(int record_fd, unsigned int bank, const struct pg_policy *policy,
			  struct pg_error *err)
{
	pg_autofree char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	char name[32];
	int error;

	if (!out)
		return pg_fail(err, -ENOMEM, "not enough memory for the policy");
	error = pg_policy_print_document(out, policy);
	if (fclose(out) || error)
		return pg_fail(err, -ENOMEM, "not enough memory for the policy");
	policy_file(bank, name);
	return pg_record_put(record_fd, name, text, size, err);
}

int pg_saved_policy_read(int record_fd, unsigned int bank, struct pg_policy **ret_policy,
			 struct pg_error *err)
{
	pg_autodiagnostics struct pg_diagnostics diagnostics = {};
	struct pg_policy_source source = {};
	pg_autofree char *text = NULL;
	char name[32];
	int error;

	policy_file(bank, name);
	error = pg_file_read_at(record_fd, name, PG_POLICY_DOCUMENT_MAX, &text, &source.size, err);
	if (error)
		return error;
	source.name = name;
	source.text = text;
	error = pg_policy_parse(&source, 1, NULL, 0, PG_POLICY_BARE, ret_policy, &diagnostics);
	if (error)
		return pg_fail_errno(err, error == -EINVAL ? -EPROTO : error, "reading %s", name);
	return 0;
}

void pg_saved_policy_remove(int record_fd, unsigned int bank)
{
	char name[32];

	policy_file(bank, name);
	unlinkat(record_fd, name, 0);
}
