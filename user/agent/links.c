/* SPDX-License-Identifier: Apache-2.0 */
#include "links.h"

#include <string.h>

#include "base/log.h"
#include "base/text.h"

/* The workload may have named it, and it goes to terminals. */
static char *printable(const char *name)
{
	return name ? pg_text_printable(name, strlen(name), 64) : NULL;
}

static void write_link(const struct pg_link_view *link, struct pg_json_writer *json)
{
	pg_autofree char *device = printable(link->device);

	pg_json_write_number(json, "network_namespace", link->network_namespace);
	pg_json_write_string(json, "interface", link->interface);
	pg_json_write_string(json, "device", device);
	pg_json_write_string(json, "guard", pg_link_guard_name(link->guard));
	if (link->guard == PG_LINK_GUARD_NONE)
		pg_json_write_string(json, "reason", pg_unguarded_name(link->reason));
}

static void describe(void *userdata, const struct pg_link_view *link)
{
	struct pg_json_writer *json = userdata;

	pg_json_write_open(json, NULL, '{');
	write_link(link, json);
	pg_json_write_close(json, '}');
}

void pg_links_describe(const struct pg_environment *environment, struct pg_json_writer *json)
{
	pg_json_write_open(json, "links", '[');
	pg_environment_visit_links(environment, describe, json);
	pg_json_write_close(json, ']');
}

void pg_links_report(struct pg_agent *agent, const struct pg_environment *environment,
		     const struct pg_link_view *link)
{
	const char *name = pg_environment_name(environment);
	pg_autofree char *device = printable(link->device);
	struct pg_json_writer json;
	char message[256];

	snprintf(message, sizeof(message),
		 "the interface %s of the network namespace %llu has no guard: %s",
		 device ? device : "?", (unsigned long long)link->network_namespace,
		 pg_unguarded_text(link->reason));
	if (agent->operating_on) {
		pg_agent_warn(agent, "link_unguarded", message);
		return;
	}
	pg_log_warning("%s: %s", name, message);
	if (!pg_agent_open_event(agent, &json, "link_unguarded", name))
		return;
	pg_json_write_number(&json, "network_namespace", link->network_namespace);
	pg_json_write_string(&json, "device", device);
	pg_json_write_string(&json, "reason", pg_unguarded_name(link->reason));
	pg_agent_close_event(agent, &json, pg_environment_owner(environment), name);
}
