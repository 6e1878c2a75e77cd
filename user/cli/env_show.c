/* SPDX-License-Identifier: Apache-2.0 */
/* phasegate env list and show. */
#include <stdlib.h>
#include <string.h>

#include "env.h"

static const struct option options[] = {PG_AGENT_OPTIONS, {}};

static char *mode_in_force(const struct pg_json_value *environment)
{
	pg_autofree char *phase = pg_agent_text(environment, "phase");
	const struct pg_json_value *modes = pg_json_member(environment, "modes");

	if (pg_json_is_true(pg_json_member(environment, "denied")))
		return strdup("denied");
	return modes && phase ? pg_agent_text(modes, phase) : strdup("-");
}

char *pg_env_lease_of(const struct pg_json_value *environment)
{
	const struct pg_json_value *lease = pg_json_member(environment, "lease");
	pg_autofree char *then = NULL;
	uint64_t ms = 0;
	char *text;

	if (!lease)
		return strdup("-");
	then = pg_agent_text(lease, "then");
	(void)!pg_json_number_of(pg_json_member(lease, "expires_in_ms"), PG_JSON_NUMBER_MAX, &ms);
	if (!then ||
	    asprintf(&text, "%llu s, then %s", (unsigned long long)((ms + 999) / 1000), then) < 0)
		return NULL;
	return text;
}

static char *count_of(const struct pg_json_value *environment, const char *name)
{
	const struct pg_json_value *array = pg_json_member(environment, name);
	char *text;

	return asprintf(&text, "%zu", array ? pg_json_count(array) : 0) < 0 ? NULL : text;
}

static void print_list(const struct pg_json_value *root)
{
	static const char *const heads[] = {"NAME",    "PHASE", "MODE",	     "GENERATION",
					    "MEMBERS", "OWNER", "POPULATED", "LEASE"};
	const struct pg_json_value *array = pg_json_member(root, "environments");
	const struct pg_json_value *item = array ? pg_json_first(array) : NULL;
	struct pg_table table = {.columns = PG_ARRAY_SIZE(heads)};

	for (size_t i = 0; i < PG_ARRAY_SIZE(heads); i++)
		pg_table_add_text(&table, heads[i]);
	for (; item; item = pg_json_next(item)) {
		pg_table_add(&table, pg_agent_text(item, "name"));
		pg_table_add(&table, pg_agent_text(item, "phase"));
		pg_table_add(&table, mode_in_force(item));
		pg_table_add(&table, pg_agent_text(item, "generation"));
		pg_table_add(&table, count_of(item, "members"));
		pg_table_add(&table, pg_agent_text(item, "owner"));
		pg_table_add(&table, pg_agent_text(item, "populated"));
		pg_table_add(&table, pg_env_lease_of(item));
	}
	pg_table_print(&table, stdout);
}

static int list_run(struct pg_agent_call *call)
{
	char *text = NULL;

	if (phasegate_list(call->client, &text, &call->error) < 0)
		return pg_agent_failed(call);
	return pg_agent_answer(call, text, print_list, PG_EXIT_OK);
}

int pg_env_list(int argc, char **argv)
{
	static const struct pg_agent_command command = {
		.name = "env list",
		.synopsis = "[OPTION]...",
		.summary = "Lists your Environments; root's are all.",
		.details = "",
		.options = options,
		.run = list_run,
	};

	return pg_agent_command(&command, NULL, argc, argv);
}

/* Lines of two fields of the elements, the first of which may be null. */
static void print_pairs(const struct pg_json_value *array, const char *label, const char *first,
			const char *between, const char *second)
{
	const struct pg_json_value *item = array ? pg_json_first(array) : NULL;

	for (; item; item = pg_json_next(item)) {
		pg_autofree char *one = pg_agent_text(item, first);
		pg_autofree char *other = pg_agent_text(item, second);
		const bool both = one && pg_json_member(item, first);

		printf("%-15s %s%s%s\n", label, both ? one : "", both ? between : "",
		       other ? other : "");
	}
}

/* What no policy can hold. */
static void print_exposures(const struct pg_json_value *array)
{
	print_pairs(array, "exposure", "id", ": ", "message");
}

static void print_link(const struct pg_json_value *link)
{
	pg_autofree char *interface = pg_agent_text(link, "interface");
	pg_autofree char *device = pg_agent_text(link, "device");
	pg_autofree char *guard = pg_agent_text(link, "guard");
	pg_autofree char *reason = pg_agent_text(link, "reason");

	printf("%-15s %s", "link", guard ? guard : "");
	if (pg_json_member(link, "reason") && reason)
		printf(" (%s)", reason);
	if (device && pg_json_member(link, "device"))
		printf(" %s", device);
	if (interface && pg_json_member(link, "interface"))
		printf(" at %s", interface);
	putchar('\n');
}

/* The ways out of the members' network namespaces. */
static void print_links(const struct pg_json_value *array)
{
	const struct pg_json_value *link = array ? pg_json_first(array) : NULL;

	for (; link; link = pg_json_next(link))
		print_link(link);
}

/* A container's own network, which the policy does not change. */
static void print_network(const struct pg_json_value *network)
{
	pg_autofree char *mode = network ? pg_agent_text(network, "mode") : NULL;
	pg_autofree char *owner = network ? pg_agent_text(network, "owner") : NULL;
	const struct pg_json_value *names = pg_json_member(network, "networks");
	const struct pg_json_value *name = names ? pg_json_first(names) : NULL;

	if (!network)
		return;
	printf("%-15s %s", "  network", mode ? mode : "");
	if (pg_json_member(network, "owner") && owner)
		printf(" (of %s)", owner);
	for (; name; name = pg_json_next(name)) {
		const char *text = pg_json_string_of(name);

		/* Docker calls the mode as the network. */
		if (text && mode && strcmp(text, mode) != 0)
			printf(" %s", text);
	}
	putchar('\n');
	print_pairs(pg_json_member(network, "blocks"), "  blocks", "network", ": ", "message");
	print_pairs(pg_json_member(network, "proxies"), "  proxy", "variable", "=", "value");
}

/* A member, and whatever else the agent says of it. */
static void print_member(const struct pg_json_value *member)
{
	pg_autofree char *cgroup = pg_agent_text(member, "cgroup");
	const struct pg_json_value *field = pg_json_first(member);

	printf("%-15s %s", "member", cgroup ? cgroup : "");
	for (; field; field = pg_json_next(field)) {
		const char *name = pg_json_name_of(field);
		pg_autofree char *text = pg_agent_text(member, name);

		if (strcmp(name, "cgroup") != 0 && strcmp(name, "network") != 0 &&
		    pg_json_member(member, name) && text)
			printf(" %s=%s", name, text);
	}
	putchar('\n');
	print_network(pg_json_member(member, "network"));
}

static void print_phase(const struct pg_json_value *policy, const char *name)
{
	const struct pg_json_value *phase = pg_json_member(policy, name);
	const struct pg_json_value *entries = phase ? pg_json_member(phase, "entries") : NULL;
	const struct pg_json_value *entry = entries ? pg_json_first(entries) : NULL;
	pg_autofree char *mode = phase ? pg_agent_text(phase, "network_mode") : NULL;

	printf("%-15s %s\n", name, mode ? mode : "-");
	for (; entry; entry = pg_json_next(entry)) {
		pg_autofree char *value = pg_agent_text(entry, "value");

		printf("%-15s   %s\n", "", value ? value : "");
	}
}

static void print_counter(const struct pg_json_value *counters, const char *name)
{
	const struct pg_json_value *counter = pg_json_member(counters, name);
	pg_autofree char *allowed = counter ? pg_agent_text(counter, "allowed") : NULL;
	pg_autofree char *denied = counter ? pg_agent_text(counter, "denied") : NULL;

	if (allowed && denied)
		printf("%-15s %s allowed, %s denied\n", name, allowed, denied);
}

static void print_counters(const struct pg_json_value *counters)
{
	static const char *const counts[] = {"connects", "sendmsgs", "packets", "ingress", "links"};
	const struct pg_json_value *reasons = pg_json_member(counters, "reasons");
	const struct pg_json_value *reason = reasons ? pg_json_first(reasons) : NULL;

	for (size_t i = 0; i < PG_ARRAY_SIZE(counts); i++)
		print_counter(counters, counts[i]);
	for (; reason; reason = pg_json_next(reason)) {
		uint64_t number = 0;

		if (pg_json_number_of(reason, PG_JSON_NUMBER_MAX, &number) && number > 0)
			printf("%-15s %s %llu\n", "reason", pg_json_name_of(reason),
			       (unsigned long long)number);
	}
}

/* What was open when the members were attached. */
static void print_connections(const struct pg_json_value *connections)
{
	const struct pg_json_value *listed = pg_json_member(connections, "listed");
	const struct pg_json_value *item = listed ? pg_json_first(listed) : NULL;
	pg_autofree char *closed = pg_agent_text(connections, "closed");
	pg_autofree char *kept = pg_agent_text(connections, "kept");

	if (closed && kept)
		printf("%-15s %s closed when it was attached, %s stay\n", "connections", closed,
		       kept);
	for (; item; item = pg_json_next(item)) {
		pg_autofree char *protocol = pg_agent_text(item, "protocol");
		pg_autofree char *local = pg_agent_text(item, "local");
		pg_autofree char *remote = pg_agent_text(item, "remote");

		if (protocol && local && remote)
			printf("%-15s   %s %s to %s\n",
			       pg_json_is_true(pg_json_member(item, "closed")) ? "  closed"
									       : "  stays",
			       protocol, local, remote);
	}
}

void pg_env_print_detail(const struct pg_json_value *root)
{
	/* What it is, in the order in which one asks. */
	static const char *const lines[] = {"name",	 "phase",    "generation",
					    "owner",	 "verifier", "member_traffic",
					    "populated", "frozen",   "cgroup_parent"};
	const struct pg_json_value *members = pg_json_member(root, "members");
	const struct pg_json_value *member = members ? pg_json_first(members) : NULL;
	const struct pg_json_value *policy = pg_json_member(root, "policy");
	pg_autofree char *lease = pg_env_lease_of(root);

	for (size_t i = 0; i < PG_ARRAY_SIZE(lines); i++)
		pg_agent_line(root, lines[i], lines[i]);
	if (pg_json_is_true(pg_json_member(root, "denied")))
		printf("%-15s everything, since a lease is over, until a phase is set\n", "denied");
	printf("%-15s %s\n", "lease", lease ? lease : "");
	for (; member; member = pg_json_next(member))
		print_member(member);
	print_exposures(pg_json_member(root, "exposures"));
	print_links(pg_json_member(root, "links"));
	if (pg_json_member(root, "connections"))
		print_connections(pg_json_member(root, "connections"));
	for (size_t i = 0; policy && pg_agent_phases[i]; i++)
		print_phase(policy, pg_agent_phases[i]);
	print_counters(pg_json_member(root, "counters"));
	pg_agent_diagnostics(stderr, pg_json_member(root, "warnings"), "warning");
}

static int show_run(struct pg_agent_call *call)
{
	char *text = NULL;

	if (phasegate_show(call->client, call->arguments[0], &text, &call->error) < 0)
		return pg_agent_failed(call);
	return pg_agent_answer(call, text, pg_env_print_detail, PG_EXIT_OK);
}

int pg_env_show(int argc, char **argv)
{
	static const struct pg_agent_command command = {
		.name = "env show",
		.synopsis = "NAME [OPTION]...",
		.summary = "Shows an Environment: state, members, policy, counters; warnings on "
			   "standard error.",
		.details = "",
		.least = 1,
		.most = 1,
		.options = options,
		.run = show_run,
	};

	return pg_agent_command(&command, NULL, argc, argv);
}
