/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses that members may be reached at by each other. */
#include "containers.h"

#include <string.h>

static bool is_of_member(const struct pg_member_list *list, const struct pg_container *network)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->containers[i] && list->containers[i]->container.id &&
		    strcmp(list->containers[i]->container.id, network->id) == 0)
			return true;
	return false;
}

/* Whether another member, in another namespace, is in the network too: elsewhere an address in it
 * may be anybody's. */
static bool is_shared(const struct pg_member_list *list, const struct pg_container *network,
		      const char *name)
{
	for (size_t i = 0; i < list->count; i++) {
		const struct pg_container *other;

		if (!list->containers[i])
			continue;
		other = pg_member_container_network(list->containers[i]);
		if (other->runtime != network->runtime || strcmp(other->id, network->id) == 0)
			continue;
		for (size_t j = 0; j < other->network_count; j++)
			if (strcmp(other->networks[j].name, name) == 0)
				return true;
	}
	return false;
}

size_t pg_containers_addresses(const struct pg_member_list *list,
			       struct pg_member_address_of *addresses, size_t max)
{
	size_t count = 0;

	for (size_t i = 0; i < list->count; i++) {
		const struct pg_container *network;

		if (!list->containers[i])
			continue;
		network = pg_member_container_network(list->containers[i]);
		if (!is_of_member(list, network))
			continue;
		for (size_t j = 0; j < network->network_count; j++) {
			const struct pg_container_network *one = &network->networks[j];

			if (!is_shared(list, network, one->name))
				continue;
			for (size_t k = 0; k < one->addr_count && count < max; k++)
				addresses[count++] =
					(struct pg_member_address_of){i, one->addrs[k]};
		}
	}
	return count;
}
