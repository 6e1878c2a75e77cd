/* SPDX-License-Identifier: Apache-2.0 */
#include "describe.h"

#include <string.h>

#include "base/clock.h"
#include "links.h"
#include "policy/print.h"

static void write_members(const struct pg_managed *managed, struct pg_json_writer *json)
{
	const size_t count = pg_environment_member_count(managed->environment);
	const char *source = managed->note.members;

	pg_json_write_open(json, "members", '[');
	for (size_t i = 0; i < count; i++) {
		const size_t length = strcspn(source, "\n");

		pg_json_write_open(json, NULL, '{');
		pg_json_write_string(json, "cgroup",
				     pg_environment_member(managed->environment, i));
		pg_json_write_number(json, "id", pg_environment_member_id(managed->environment, i));
		if (length > 0)
			fprintf(json->out, ",%.*s", (int)length, source);
		if (pg_environment_member_gone(managed->environment, i))
			pg_json_write_bool(json, "gone", true);
		pg_json_write_close(json, '}');
		source += length + (source[length] == '\n');
	}
	pg_json_write_close(json, ']');
}

static void write_modes(const struct pg_policy *policy, struct pg_json_writer *json)
{
	pg_json_write_open(json, "modes", '{');
	for (size_t i = 0; i < PG_PHASE_COUNT; i++)
		pg_json_write_string(json, pg_phase_name((enum pg_phase)i),
				     pg_mode_name(policy->phases[i].mode));
	pg_json_write_close(json, '}');
}

static void write_policy(const struct pg_policy *policy, struct pg_json_writer *json)
{
	/* The documents of the request are gone; their numbers are all that is left of them. */
	static const struct pg_policy_source unnamed[] = {{.name = "policy"}};

	pg_json_write_open(json, "policy", '{');
	for (size_t i = 0; i < PG_PHASE_COUNT; i++) {
		struct pg_phase_policy phase = policy->phases[i];

		phase.source = 0;
		pg_json_write_name(json, pg_phase_name((enum pg_phase)i));
		if (pg_phase_policy_print_json(json->out, &phase, unnamed) < 0)
			fputs("null", json->out);
	}
	pg_json_write_close(json, '}');
}

/* X(name, first reason, ...) would be a second list: the reasons go by their own names. */
static const char *const reasons[] = {
#define PG_X(symbol, value, verdict, name, text) [value] = name,
	PG_REASONS(PG_X)
#undef PG_X
};

static const char *const counts[] = {
#define PG_X(symbol, name) [PG_COUNT_##symbol] = name,
	PG_COUNTS(PG_X)
#undef PG_X
};

static void write_counters(const struct pg_environment *environment, struct pg_json_writer *json)
{
	struct pg_counters counters = {};
	struct pg_error unused = {};

	if (pg_environment_counters(environment, &counters, &unused) < 0) {
		pg_json_write_null(json, "counters");
		return;
	}
	pg_json_write_open(json, "counters", '{');
	for (size_t i = 0; i < PG_COUNT_COUNT; i++) {
		pg_json_write_open(json, counts[i], '{');
		pg_json_write_number(json, "allowed", counters.verdict[i][PG_ALLOW]);
		pg_json_write_number(json, "denied", counters.verdict[i][PG_DENY]);
		pg_json_write_close(json, '}');
	}
	pg_json_write_open(json, "reasons", '{');
	for (size_t i = 0; i < PG_REASON_COUNT; i++)
		pg_json_write_number(json, reasons[i], counters.reason[i]);
	pg_json_write_close(json, '}');
	pg_json_write_number(json, "events_lost", counters.events_lost);
	pg_json_write_number(json, "events_suppressed", counters.events_suppressed);
	pg_json_write_number(json, "flows_refused", counters.flows_refused);
	pg_json_write_close(json, '}');
}

static void write_connection(const struct pg_connection *connection, struct pg_json_writer *json)
{
	char local[PG_ADDR_TEXT], remote[PG_ADDR_TEXT];

	pg_json_write_open(json, NULL, '{');
	pg_json_write_string(json, "protocol", connection->protocol == IPPROTO_TCP ? "tcp" : "udp");
	pg_json_write_string(json, "local", pg_endpoint_format(&connection->local, local));
	pg_json_write_string(json, "remote", pg_endpoint_format(&connection->remote, remote));
	pg_json_write_bool(json, "closed", connection->closed);
	pg_json_write_close(json, '}');
}

/* What was open when the members were attached. */
static void write_connections(const struct pg_environment *environment, struct pg_json_writer *json)
{
	const struct pg_connections *connections = pg_environment_connections(environment);

	if (!connections) {
		pg_json_write_null(json, "connections");
		return;
	}
	pg_json_write_open(json, "connections", '{');
	pg_json_write_number(json, "closed", connections->closed);
	pg_json_write_number(json, "kept", connections->kept);
	pg_json_write_open(json, "listed", '[');
	for (size_t i = 0; i < connections->listed; i++)
		write_connection(&connections->items[i], json);
	pg_json_write_close(json, ']');
	pg_json_write_close(json, '}');
}

static void write_dns(const struct pg_environment *environment, struct pg_json_writer *json)
{
	const struct pg_resolver_stats stats = pg_environment_dns_stats(environment);

	pg_json_write_open(json, "dns", '{');
#define PG_X(field) pg_json_write_number(json, #field, stats.field);
	PG_RESOLVER_STATS(PG_X)
#undef PG_X
	pg_json_write_number(json, "unreported", pg_environment_refusals_unreported(environment));
	pg_json_write_close(json, '}');
}

void pg_describe_lease(const struct pg_lease *lease, struct pg_json_writer *json)
{
	const uint64_t now = pg_boottime_ns();

	if (!lease->set) {
		pg_json_write_null(json, "lease");
		return;
	}
	pg_json_write_open(json, "lease", '{');
	pg_json_write_number(json, "expires_in_ms",
			     lease->deadline > now ? (lease->deadline - now) / PG_NSEC_PER_MSEC
						   : 0);
	pg_json_write_string(json, "then",
			     lease->then == PG_LEASE_DENY
				     ? "deny"
				     : pg_phase_name((enum pg_phase)lease->then));
	pg_json_write_close(json, '}');
}

void pg_describe_survivors(const struct pg_survivors *survivors, struct pg_json_writer *json)
{
	pg_json_write_open(json, "survivors", '[');
	for (size_t i = 0; i < survivors->count; i++) {
		pg_json_write_open(json, NULL, '{');
		pg_json_write_number(json, "pid", (uint64_t)survivors->items[i].pid);
		pg_json_write_string(json, "command", survivors->items[i].command);
		pg_json_write_string(json, "cgroup", survivors->items[i].cgroup);
		pg_json_write_close(json, '}');
	}
	pg_json_write_close(json, ']');
}

static void write_populated(const struct pg_environment *environment, struct pg_json_writer *json)
{
	struct pg_error unused = {};
	bool populated;

	if (pg_environment_populated(environment, &populated, &unused) < 0)
		pg_json_write_null(json, "populated");
	else
		pg_json_write_bool(json, "populated", populated);
}

void pg_describe(const struct pg_managed *managed, enum pg_detail detail,
		 struct pg_json_writer *json)
{
	const struct pg_environment *environment = managed->environment;
	const struct pg_policy *policy = pg_environment_policy(environment);

	pg_json_write_string(json, "name", pg_environment_name(environment));
	pg_json_write_number(json, "id", pg_environment_id(environment));
	pg_json_write_number(json, "owner", pg_environment_owner(environment));
	pg_json_write_string(json, "phase", pg_phase_name(pg_environment_phase(environment)));
	pg_json_write_bool(json, "denied", pg_environment_denied(environment));
	pg_json_write_number(json, "generation", pg_environment_generation(environment));
	write_modes(policy, json);
	write_members(managed, json);
	pg_json_write_string(json, "cgroup_parent",
			     pg_environment_made(environment)
				     ? pg_environment_member(environment, 0)
				     : NULL);
	pg_json_write_string(json, "verifier", pg_verifier_name(managed->note.verifier));
	pg_json_write_string(json, "member_traffic", managed->note.apart ? "deny" : "allow");
	write_populated(environment, json);
	pg_json_write_bool(json, "frozen", managed->note.frozen);
	pg_describe_lease(&managed->note.lease, json);
	if (detail == PG_DETAIL_LIST)
		return;
	pg_json_write_name(json, "warnings");
	fprintf(json->out, "[%s]", managed->note.warnings);
	pg_json_write_name(json, "exposures");
	fprintf(json->out, "[%s]", managed->note.exposures);
	pg_links_describe(environment, json);
	write_connections(environment, json);
	write_policy(policy, json);
	write_counters(environment, json);
	write_dns(environment, json);
}
