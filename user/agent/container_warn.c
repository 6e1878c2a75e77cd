/* SPDX-License-Identifier: Apache-2.0 */
#include "container_share.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

#define MESSAGE_OCTETS 512

static void warn(struct pg_agent *agent, const char *code, const char *format, ...) PG_PRINTF(3, 4);
static void warn(struct pg_agent *agent, const char *code, const char *format, ...)
{
	char message[MESSAGE_OCTETS];
	va_list args;

	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	pg_agent_warn(agent, code, message);
}

/* The container is one of the members. name_or_id: as a network mode says it. */
static bool is_member(const struct pg_member_list *list, const char *name_or_id)
{
	for (size_t i = 0; i < list->count; i++) {
		const struct pg_member_container *member = list->containers[i];

		if (member && (strcmp(member->container.id, name_or_id) == 0 ||
			       strcmp(member->container.name, name_or_id) == 0))
			return true;
	}
	return false;
}

static bool is_of_a_project(const struct pg_member_list *list, enum pg_runtime runtime,
			    const char *project)
{
	for (size_t i = 0; project && i < list->count; i++) {
		const struct pg_member_container *member = list->containers[i];

		if (member && member->container.runtime == runtime && member->container.project &&
		    strcmp(member->container.project, project) == 0)
			return true;
	}
	return false;
}

/* Runtimes name a cgroup after the container's id. */
static struct pg_sharing *find_sharing(struct pg_sharings *sharings, const char *id)
{
	for (size_t i = 0; i < sharings->count; i++)
		if (strstr(sharings->items[i].cgroup, id))
			return &sharings->items[i];
	return NULL;
}

static void look_at_neighbour(struct pg_agent *agent, const struct pg_member_list *list,
			      enum pg_runtime runtime, const struct pg_neighbour *neighbour,
			      struct pg_sharings *sharings)
{
	struct pg_sharing *sharing;

	if (is_member(list, neighbour->id))
		return;
	sharing = find_sharing(sharings, neighbour->id);
	if (is_of_a_project(list, runtime, neighbour->project))
		warn(agent, "unconfined_service",
		     "the container %s (service %s of project %s) is no member: nothing confines"
		     " it, and what may reach it can be forwarded by it",
		     neighbour->name, neighbour->service ? neighbour->service : "without name",
		     neighbour->project);
	else if (sharing && !sharing->told)
		warn(agent, "unconfined_service",
		     "the container %s is no member, but in the network namespace of %s: nothing"
		     " confines it; the two reach each other over loopback only by an entry",
		     neighbour->name, sharing->with->name);
	if (sharing)
		sharing->told = true;
}

static void look_around(struct pg_agent *agent, const struct pg_member_list *list,
			enum pg_runtime runtime, struct pg_sharings *sharings)
{
	const struct pg_surroundings *around = &list->around[runtime];

	if (around->err.number)
		warn(agent, "unconfined_service",
		     "containers that were left out cannot be told: %s", around->err.text);
	for (size_t i = 0; i < around->neighbours.count; i++)
		look_at_neighbour(agent, list, runtime, &around->neighbours.items[i], sharings);
}

/* Of containers that no runtime has told of, and of processes that are in none. */
static void warn_of_sharings(struct pg_agent *agent, const struct pg_sharings *sharings)
{
	for (size_t i = 0; i < sharings->count; i++)
		if (!sharings->items[i].told)
			warn(agent, "unconfined_service",
			     "the process %d in the cgroup %s is of no member, but in the network"
			     " namespace of %s: nothing confines it; the two reach each other"
			     " over loopback only by an entry",
			     sharings->items[i].pid, sharings->items[i].cgroup,
			     sharings->items[i].with->name);
}

static bool opens_anything(const struct pg_policy *policy)
{
	for (size_t i = 0; i < PG_PHASE_COUNT; i++)
		if (policy->phases[i].mode != PG_MODE_NO_NETWORK)
			return true;
	return false;
}

static void warn_of_blocks(struct pg_agent *agent, const struct pg_member_container *member)
{
	const struct pg_container *network = pg_member_container_network(member);
	size_t internal = 0;

	if (network->network_mode && strcmp(network->network_mode, "none") == 0)
		warn(agent, "network_blocks",
		     "the container %s has the network none: it reaches nothing but loopback,"
		     " whatever the policy allows",
		     member->container.name);
	for (size_t i = 0; i < network->network_count; i++)
		internal += network->networks[i].internal;
	if (internal > 0 && internal == network->network_count)
		warn(agent, "network_blocks",
		     "the container %s has only internal networks: it reaches nothing outside,"
		     " whatever the policy allows",
		     member->container.name);
}

static void warn_of_mode(struct pg_agent *agent, const struct pg_member_list *list,
			 const struct pg_member_container *member)
{
	const struct pg_container *container = &member->container;
	const char *mode = container->network_mode, *owner = pg_network_owner(mode);

	if (mode && strcmp(mode, "host") == 0)
		warn(agent, "host_network",
		     "the container %s uses the host's network: what it sends is judged as any"
		     " container's, and the host's loopback is open to it by an entry only; not"
		     " confined is who may reach what it listens on, at the host's addresses",
		     container->name);
	if (!owner || is_member(list, owner) ||
	    (member->owner.id && is_member(list, member->owner.id)))
		return;
	warn(agent, "shared_network",
	     "the container %s uses the network of %s, which is no member: nothing confines"
	     " that one; it is reached over loopback only by an entry",
	     container->name, member->owner.id ? member->owner.name : owner);
}

static void warn_of_rights(struct pg_agent *agent, const struct pg_member_container *member)
{
	const char *name = member->container.name;

	if (member->container.privileged)
		return;
	if (member->net_admin)
		warn(agent, "container_net_admin",
		     "the container %s may have CAP_NET_ADMIN: it can answer for the runtime's"
		     " nameserver, and make the listeners for its own names go away; what leaves it"
		     " by a guarded interface is judged",
		     name);
}

static void warn_of_proxies(struct pg_agent *agent, const struct pg_container *container,
			    const struct pg_policy *policy)
{
	if (!pg_policy_has_names(policy))
		return;
	for (size_t i = 0; i < container->proxy_count; i++)
		warn(agent, "proxy_resolves_names",
		     "the container %s has %s=%s: programs that use it leave names to the proxy,"
		     " which needs an entry of its own and then decides what they reach",
		     container->name, container->proxies[i].variable, container->proxies[i].value);
}

void pg_containers_warn(struct pg_agent *agent, const struct pg_member_list *list,
			const struct pg_policy *policy)
{
	bool asked[PG_RUNTIME_COUNT] = {false};
	pg_autosharings struct pg_sharings sharings;

	pg_sharings_find(list, &sharings);
	for (size_t i = 0; i < list->count; i++) {
		const struct pg_member_container *member = list->containers[i];

		if (!member)
			continue;
		warn_of_mode(agent, list, member);
		if (opens_anything(policy))
			warn_of_blocks(agent, member);
		warn_of_rights(agent, member);
		warn_of_proxies(agent, &member->container, policy);
		if (!asked[member->container.runtime])
			look_around(agent, list, member->container.runtime, &sharings);
		asked[member->container.runtime] = true;
	}
	warn_of_sharings(agent, &sharings);
}
