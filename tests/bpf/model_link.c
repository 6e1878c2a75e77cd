// SPDX-License-Identifier: Apache-2.0
/* docs/verdicts.md, at the veth: RFC 791 and 8200 (fragments), 792 and 4443 (ICMP), 9293 (TCP). */
#include "model.h"

#include <string.h>

static uint16_t get16(const uint8_t *octets)
{
	return (uint16_t)(octets[0] << 8 | octets[1]);
}

/* The kernel's own fragments of what may leave come past here. */
static void read_fragment(const uint8_t *octets, size_t size, struct model_link_packet *ret)
{
	struct model_packet whole = {.protocol = octets[ret->packet.ipv6_header ? 40 : 9]};
	const size_t header = ret->packet.ipv6_header ? 48 : 20;
	const unsigned int offset =
		ret->packet.ipv6_header ? get16(octets + 42) >> 3 : get16(octets + 6) & 0x1fff;

	if (size < header || !model_is_opened(whole.protocol))
		return;
	ret->later = offset != 0;
	ret->transport = header;
	if (ret->later) {
		ret->packet.defect = MODEL_SOUND;
		ret->packet.protocol = whole.protocol;
		return;
	}
	model_read_transport(octets + header, size - header, &whole);
	whole.ipv6_header = ret->packet.ipv6_header;
	whole.addressed = true;
	whole.source = ret->packet.source;
	whole.destination = ret->packet.destination;
	ret->packet = whole;
}

void model_link_read(unsigned int ethertype, const uint8_t *octets, size_t size,
		     struct model_link_packet *ret)
{
	memset(ret, 0, sizeof(*ret));
	model_read_packet(ethertype, octets, size, &ret->packet);
	ret->transport = ret->packet.ipv6_header ? 40 : 20;
	if (ethertype != 0x0800 && ethertype != 0x86dd)
		ret->packet.defect = MODEL_FRAME;
	else if (ret->packet.defect == MODEL_FRAGMENT &&
		 size >= (ret->packet.ipv6_header ? 48U : 20U))
		read_fragment(octets, size, ret);
}

struct model_facts model_link_facts(const struct model_link_packet *link,
				    const struct model_place *place, enum model_sender sender,
				    bool in_public)
{
	const struct model_packet *packet = &link->packet;
	struct model_facts facts = model_facts_of(packet, place, false);

	facts.on_link = true;
	facts.own_source = false;
	for (size_t i = 0; i < place->own_count && packet->addressed; i++)
		facts.own_source |= model_same(&place->own[i], &packet->source);
	/* In public packet sockets are nothing special, but below the ceiling. */
	if (sender == MODEL_SENDS_FRAMES && !in_public)
		facts.defect = MODEL_FRAME;
	facts.own_source |= facts.defect == MODEL_FRAME;
	return facts;
}

/* A SYN, an echo request: what the kernel may answer without a socket of the workload's. */
void model_link_came(struct model_seen *seen, const struct model_link_packet *link,
		     const uint8_t *octets, size_t size, uint64_t generation)
{
	const struct model_packet *packet = &link->packet;
	const uint8_t *icmp = octets + link->transport;
	struct model_seen_flow flow = {.remote = packet->source,
				       .protocol = packet->protocol,
				       .local_port = packet->destination_port,
				       .remote_port = packet->source_port,
				       .generation = generation};

	if (packet->defect || link->later)
		return;
	switch (packet->protocol) {
	case 6:
		if (!packet->opens)
			return;
		break;
	case 17:
		break;
	case 1:
	case 58:
		if (size < link->transport + 8 || icmp[0] != (packet->ipv6_header ? 128 : 8))
			return;
		flow.remote_port = get16(icmp + 4);
		break;
	default:
		return;
	}
	seen->flows[seen->next++ % MODEL_SEEN_MAX] = flow;
}

static bool has_seen(const struct model_seen *seen, const struct model_seen_flow *wanted)
{
	for (size_t i = 0; i < MODEL_SEEN_MAX && i < seen->next; i++) {
		const struct model_seen_flow *flow = &seen->flows[i];

		/* TCP has opened it in any phase. */
		if (flow->protocol == wanted->protocol &&
		    (flow->protocol == 6 || flow->generation == wanted->generation) &&
		    flow->local_port == wanted->local_port &&
		    flow->remote_port == wanted->remote_port &&
		    model_same(&flow->remote, &wanted->remote))
			return true;
	}
	return false;
}

static bool is_bare_answer(const struct model_packet *packet)
{
	static const uint8_t flags[] = {0x12, 0x10, 0x04, 0x14}; /* SYN-ACK, ACK, RST, RST-ACK */

	return !packet->tcp_payload && memchr(flags, packet->tcp_flags & 0x17, sizeof(flags));
}

/* The quoted packet came from where the error goes. */
static bool quotes(const uint8_t *quoted, size_t size, bool v6, struct model_seen_flow *flow)
{
	const size_t header = v6 ? 40 : 20;
	struct model_address source = {.family = v6 ? 6 : 4};

	if (size < header + 4 || quoted[0] >> 4 != (v6 ? 6 : 4))
		return false;
	if (!v6 && ((quoted[0] & 15) != 5 || get16(quoted + 6) & 0x1fff))
		return false;
	memcpy(source.octets, quoted + (v6 ? 8 : 12), v6 ? 16 : 4);
	flow->protocol = quoted[v6 ? 6 : 9];
	flow->remote_port = get16(quoted + header);
	flow->local_port = get16(quoted + header + 2);
	return model_same(&source, &flow->remote) && (flow->protocol == 6 || flow->protocol == 17);
}

bool model_link_may_answer(const struct model_seen *seen, const struct model_link_packet *link,
			   const uint8_t *octets, size_t size, enum model_sender sender,
			   uint64_t generation)
{
	const struct model_packet *packet = &link->packet;
	const uint8_t *icmp = octets + link->transport;
	struct model_seen_flow flow = {.remote = packet->destination,
				       .protocol = packet->protocol,
				       .local_port = packet->source_port,
				       .remote_port = packet->destination_port,
				       .generation = generation};

	if (packet->protocol == 6)
		return (sender == MODEL_SENDS_NOBODY || sender == MODEL_SENDS_CONTROL) &&
		       is_bare_answer(packet) && has_seen(seen, &flow);
	if (packet->protocol != (packet->ipv6_header ? 58 : 1) || sender != MODEL_SENDS_CONTROL ||
	    size < link->transport + 8)
		return false;
	if (icmp[0] == (packet->ipv6_header ? 129 : 0)) {
		flow.local_port = 0;
		flow.remote_port = get16(icmp + 4);
		return has_seen(seen, &flow);
	}
	if (packet->ipv6_header ? icmp[0] < 1 || icmp[0] > 4
				: icmp[0] != 3 && icmp[0] != 11 && icmp[0] != 12)
		return false;
	return quotes(icmp + 8, size - link->transport - 8, packet->ipv6_header, &flow) &&
	       has_seen(seen, &flow);
}
