/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/utsname.h>

#include <phasegate/abi/flow.h>
#include <phasegate/abi/member.h>

#include "exposures.h"
#include "request.h"
#include "server.h"

static void write_names(struct pg_json_writer *json, const char *name, const char *const *names,
			size_t count)
{
	pg_json_write_open(json, name, '[');
	for (size_t i = 0; i < count; i++)
		pg_json_write_string(json, NULL, names[i]);
	pg_json_write_close(json, ']');
}

static const char *const modes[] = {
#define PG_X(symbol, value, name) name,
	PG_MODES(PG_X)
#undef PG_X
};

static const char *const phases[] = {
#define PG_X(symbol, value, name, field) name,
	PG_PHASES(PG_X)
#undef PG_X
};

static const char *const verifiers[] = {
#define PG_X(symbol, name) name,
	PG_VERIFIERS(PG_X)
#undef PG_X
};

static const char *const survivors[] = {"kill", "freeze", "refuse", "allow"};
static const char *const members[] = {"new", "cgroup", "pid", "container"};
static const char *const runtimes[] = {"docker", "podman", "containerd"};

static void write_addresses(struct pg_json_writer *json)
{
	pg_json_write_open(json, "addresses", '{');
	pg_json_write_bool(json, "ipv4", true);
	pg_json_write_bool(json, "ipv6", true);
	pg_json_write_bool(json, "cidr4", true);
	pg_json_write_bool(json, "cidr6", true);
	pg_json_write_close(json, '}');
}

static void write_limits(struct pg_json_writer *json, const struct pg_config *config)
{
	pg_json_write_open(json, "limits", '{');
	pg_json_write_number(json, "environments", PG_ENVIRONMENTS_MAX);
	pg_json_write_number(json, "environments_per_user", config->environments_per_user);
	pg_json_write_number(json, "members", PG_MEMBERS_MAX);
	pg_json_write_number(json, "members_per_user", config->members_per_user);
	pg_json_write_number(json, "entries", PG_POLICY_ENTRIES_MAX);
	pg_json_write_number(json, "policy_octets", PG_POLICY_DOCUMENT_MAX);
	pg_json_write_number(json, "request_octets", PG_REQUEST_MAX);
	pg_json_write_number(json, "entries_per_user", config->entries_per_user);
	pg_json_write_number(json, "clients", PG_CLIENTS_MAX);
	pg_json_write_number(json, "clients_per_user", config->clients_per_user);
	pg_json_write_number(json, "events", PG_EVENTS_MAX);
	pg_json_write_close(json, '}');
}

static void write_operator(struct pg_json_writer *json, const struct pg_config *config)
{
	char text[PG_ADDR_TEXT];

	pg_json_write_open(json, "operator", '{');
	pg_json_write_open(json, "never_allow", '[');
	for (size_t i = 0; i < config->never_allow_count; i++)
		pg_json_write_string(json, NULL, pg_prefix_format(&config->never_allow[i], text));
	pg_json_write_close(json, ']');
	if (config->host_ports_given) {
		pg_json_write_open(json, "host_ports", '[');
		for (size_t i = 0; i < config->host_port_count; i++)
			pg_json_write_number(json, NULL, config->host_ports[i]);
		pg_json_write_close(json, ']');
	} else {
		pg_json_write_null(json, "host_ports");
	}
	pg_json_write_open(json, "exposures", '{');
	pg_exposures_describe(config, json);
	pg_json_write_close(json, '}');
	pg_json_write_close(json, '}');
}

/* Names need somebody to ask. */
static bool has_resolver(const struct pg_config *config)
{
	struct pg_endpoint servers[PG_NAMESERVERS_MAX];
	size_t count = 0;

	return config->resolver_count > 0 ||
	       pg_resolv_conf_read(NULL, servers, PG_NAMESERVERS_MAX, &count, NULL) == 0;
}

/* That the agent runs means that everything that enforcement needs has been tried. */
void pg_api_capabilities(struct pg_agent *agent, const struct pg_request *request,
			 struct pg_reply *reply)
{
	struct pg_json_writer *json = pg_reply_open(reply, 200);
	const bool names = has_resolver(agent->config);
	struct utsname host = {};

	if (!json)
		return;
	uname(&host);
	pg_json_write_string(json, "version", PG_VERSION);
	pg_json_write_number(json, "abi", PG_ABI_VERSION);
	pg_json_write_string(json, "kernel", host.release);
	write_names(json, "modes", modes, PG_ARRAY_SIZE(modes));
	write_names(json, "phases", phases, PG_ARRAY_SIZE(phases));
	pg_json_write_bool(json, "hostnames", names);
	pg_json_write_bool(json, "wildcards", names);
	write_addresses(json);
	pg_json_write_bool(json, "phase_switching", true);
	pg_json_write_bool(json, "policy_update", true);
	pg_json_write_bool(json, "connection_closing", true);
	pg_json_write_bool(json, "leases", true);
	pg_json_write_bool(json, "events", true);
	write_names(json, "survivors", survivors, PG_ARRAY_SIZE(survivors));
	write_names(json, "verifier", verifiers, PG_ARRAY_SIZE(verifiers));
	write_names(json, "members", members, PG_ARRAY_SIZE(members));
	write_names(json, "runtimes", runtimes, PG_ARRAY_SIZE(runtimes));
	pg_json_write_open(json, "guards", '{');
	pg_json_write_bool(json, "veth", true);
	pg_json_write_bool(json, "parent_cgroup", true);
	pg_json_write_bool(json, "exec", pg_host_watches_exec(agent->host));
	pg_json_write_close(json, '}');
	write_operator(json, agent->config);
	write_limits(json, agent->config);
	pg_reply_close(reply);
}
