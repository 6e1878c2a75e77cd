// SPDX-License-Identifier: Apache-2.0
#include "model.h"

#include <string.h>

static bool is_listed(const struct model_address *list, size_t count,
		      const struct model_address *address)
{
	for (size_t i = 0; i < count; i++)
		if (model_same(&list[i], address))
			return true;
	return false;
}

static enum model_receiver receiver_at(const struct model_place *place, uint16_t port)
{
	for (size_t i = 0; i < place->port_count; i++)
		if (place->ports[i] == port)
			return place->receivers[i];
	return MODEL_NOBODY;
}

/* To another device: a listed one. To lo: what goes there from its own destination. */
static bool is_own_source(const struct model_packet *packet, const struct model_place *place,
			  bool on_lo)
{
	static const struct model_address any4 = {.family = 4}, any6 = {.family = 6};

	if (!packet->addressed)
		return false;
	if (model_is_loopback(&packet->source))
		return true;
	if (!on_lo)
		return is_listed(place->own, place->own_count, &packet->source);
	return memcmp(&packet->source, &any6, sizeof(any6)) != 0 &&
	       memcmp(&packet->source, &any4, sizeof(any4)) != 0 &&
	       !memcmp(&packet->source, &packet->destination, sizeof(packet->source));
}

struct model_facts model_facts_of(const struct model_packet *packet,
				  const struct model_place *place, bool on_lo)
{
	const bool receivable = packet->protocol == 6 || packet->protocol == 17;
	enum model_receiver receiver = MODEL_OUTSIDE;
	struct model_facts facts = {
		.packet = true,
		.ipv6_header = packet->ipv6_header,
		.defect = packet->defect,
		.remote = packet->destination,
		.remote_port = packet->destination_port,
		.protocol = packet->protocol,
		.on_lo = on_lo,
		.own_source = is_own_source(packet, place, on_lo),
	};

	if (!on_lo) {
		facts.member = packet->addressed &&
			       is_listed(place->members, place->member_count, &packet->destination);
		return facts;
	}
	if (packet->defect == MODEL_SOUND && receivable && !model_is_for_many(&packet->destination))
		receiver = receiver_at(place, packet->destination_port);
	facts.loopback = receiver == MODEL_NOBODY || receiver == MODEL_WITHIN;
	facts.hidden = receiver == MODEL_HIDDEN;
	return facts;
}
