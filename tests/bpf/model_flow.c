// SPDX-License-Identifier: Apache-2.0
#include "model.h"

#include <string.h>

void model_flows_clear(struct model_flows *flows)
{
	memset(flows->cells, 0, sizeof(flows->cells));
	flows->count = flows->barred_count = 0;
	flows->all_barred = false;
}

static struct model_ends ends_of(const struct model_packet *packet, bool out)
{
	struct model_ends ends;

	memset(&ends, 0, sizeof(ends));
	ends.local = out ? packet->source : packet->destination;
	ends.remote = out ? packet->destination : packet->source;
	ends.local_port = out ? packet->source_port : packet->destination_port;
	ends.remote_port = out ? packet->destination_port : packet->source_port;
	return ends;
}

static bool same_ends(const struct model_ends *a, const struct model_ends *b)
{
	return a->local_port == b->local_port && a->remote_port == b->remote_port &&
	       model_same(&a->local, &b->local) && model_same(&a->remote, &b->remote);
}

/* Equal for equal ends: of an IPv4-mapped address the last four octets are those of IPv4. */
static size_t hash(const struct model_ends *ends)
{
	const struct model_address *both[2] = {&ends->local, &ends->remote};
	size_t sum = ends->local_port * 31U + ends->remote_port * 7U;

	for (size_t i = 0; i < 2; i++)
		for (size_t j = 0; j < 4; j++)
			sum = sum * 131 + both[i]->octets[both[i]->family == 4 ? j : 12 + j];
	return sum * 2654435761U >> 7;
}

/* The cell of these ends, or the empty one where they would be. */
static uint16_t *cell_of(struct model_flows *flows, const struct model_ends *ends)
{
	size_t at = hash(ends) % (2 * MODEL_FLOWS_MAX);

	while (flows->cells[at] && !same_ends(&flows->list[flows->cells[at] - 1].ends, ends))
		at = (at + 1) % (2 * MODEL_FLOWS_MAX);
	return &flows->cells[at];
}

/* Made if it is not there; *ret_new says so. NULL: the model has no more room. */
static struct model_flow *flow_of(struct model_flows *flows, const struct model_ends *ends,
				  bool *ret_new)
{
	uint16_t *cell = cell_of(flows, ends);

	*ret_new = !*cell;
	if (*ret_new) {
		if (flows->count == MODEL_FLOWS_MAX)
			return NULL;
		flows->list[flows->count] = (struct model_flow){.ends = *ends};
		*cell = (uint16_t)++flows->count;
	}
	return &flows->list[*cell - 1];
}

static bool is_datagram(const struct model_packet *packet)
{
	return packet->defect == MODEL_SOUND && packet->protocol == 17;
}

bool model_flows_answers(struct model_flows *flows, const struct model_packet *packet,
			 uint64_t generation)
{
	const struct model_ends ends = ends_of(packet, true);
	const uint16_t cell = is_datagram(packet) ? *cell_of(flows, &ends) : 0;
	const struct model_flow *flow = cell ? &flows->list[cell - 1] : NULL;

	return flow && !flow->from_inside && flow->generation == generation;
}

/* IPv4 says what it carries, whatever its options are, but not if it is cut. IPv6 only if that is
 * ICMPv6 behind a hop-by-hop header. */
static bool may_be_datagram(const struct model_packet *packet)
{
	if (packet->ipv6_header)
		return !packet->icmpv6 || !packet->icmp_type;
	return packet->addressed && packet->protocol == 17;
}

static bool says_where_it_goes(const struct model_packet *packet)
{
	return packet->defect == MODEL_FRAGMENT && !packet->ipv6_header;
}

static void bar(struct model_flows *flows, const struct model_packet *packet)
{
	if (!may_be_datagram(packet))
		return;
	if (!says_where_it_goes(packet)) {
		flows->all_barred = true;
		return;
	}
	for (size_t i = 0; i < flows->barred_count; i++)
		if (model_same(&flows->barred[i], &packet->destination))
			return;
	flows->barred[flows->barred_count++] = packet->destination;
}

void model_flows_sent(struct model_flows *flows, const struct model_packet *packet)
{
	const struct model_ends ends = ends_of(packet, true);
	struct model_flow *flow;
	bool new;

	if (packet->defect != MODEL_SOUND) {
		bar(flows, packet);
		return;
	}
	if (!is_datagram(packet))
		return;
	flow = flow_of(flows, &ends, &new);
	if (flow)
		flow->from_inside = true;
}

static bool is_barred(const struct model_flows *flows, const struct model_address *remote)
{
	for (size_t i = 0; i < flows->barred_count; i++)
		if (model_same(&flows->barred[i], remote))
			return true;
	return flows->all_barred;
}

void model_flows_came(struct model_flows *flows, const struct model_packet *packet,
		      uint64_t generation)
{
	const struct model_ends ends = ends_of(packet, false);
	struct model_flow *flow;
	bool new;

	/* To port 0 nothing can be sent back. */
	if (!is_datagram(packet) || !packet->source_port || is_barred(flows, &packet->source))
		return;
	flow = flow_of(flows, &ends, &new);
	if (flow)
		flow->generation = generation;
}
