/* SPDX-License-Identifier: Apache-2.0 */
#include "opens_host.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <string.h>

/* Each entry is compared with each: a host with more has its first ones looked at. */
#define ADDRESSES_MAX 64

static bool read_address(const struct ifaddrs *interface, struct pg_addr *ret_addr)
{
	const struct sockaddr *address = interface->ifa_addr;

	if (address && address->sa_family == AF_INET) {
		struct sockaddr_in in;

		memcpy(&in, address, sizeof(in));
		*ret_addr = pg_addr_from_v4(in.sin_addr.s_addr);
		return !pg_addr_is_loopback(ret_addr);
	}
	if (address && address->sa_family == AF_INET6) {
		struct sockaddr_in6 in6;

		memcpy(&in6, address, sizeof(in6));
		*ret_addr = pg_addr_from_bytes(in6.sin6_addr.s6_addr);
		return !pg_addr_is_loopback(ret_addr);
	}
	return false;
}

static size_t read_addresses(struct pg_addr *addresses)
{
	struct ifaddrs *interfaces = NULL;
	size_t count = 0;

	if (getifaddrs(&interfaces))
		return 0;
	for (const struct ifaddrs *i = interfaces; i && count < ADDRESSES_MAX; i = i->ifa_next)
		count += read_address(i, &addresses[count]);
	freeifaddrs(interfaces);
	return count;
}

static void warn(struct pg_agent *agent, enum pg_phase phase, const struct pg_entry *entry,
		 const struct pg_addr *addr)
{
	pg_autofree char *text = pg_entry_format(entry);
	char address[PG_ADDR_TEXT], message[256];

	snprintf(message, sizeof(message), "%s: the entry %s opens the host's own address %s%s",
		 pg_phase_name(phase), text ? text : "", pg_addr_format(addr, address),
		 agent->config->host_ports_given ? " on the ports of host_ports" : "");
	pg_agent_warn(agent, "opens_host", message);
}

static void look_at_entry(struct pg_agent *agent, enum pg_phase phase, const struct pg_entry *entry,
			  const struct pg_addr *addresses, bool *told, size_t count)
{
	if (entry->kind == PG_ENTRY_HOST || entry->kind == PG_ENTRY_WILDCARD)
		return;
	for (size_t i = 0; i < count; i++) {
		if (told[i] || !pg_prefix_contains(&entry->prefix, &addresses[i]))
			continue;
		told[i] = true;
		warn(agent, phase, entry, &addresses[i]);
	}
}

void pg_opens_host_warn(struct pg_agent *agent, const struct pg_policy *policy)
{
	struct pg_addr addresses[ADDRESSES_MAX];
	bool told[ADDRESSES_MAX] = {false};
	const size_t count = read_addresses(addresses);

	for (size_t i = 0; i < PG_PHASE_COUNT; i++) {
		const struct pg_entries *entries = policy->phases[i].entries;

		for (size_t j = 0; entries && j < entries->count; j++)
			look_at_entry(agent, (enum pg_phase)i, &entries->items[j], addresses, told,
				      count);
	}
}
