/* SPDX-License-Identifier: Apache-2.0 */
/* Random policies and packets in a universe so small that most rules are hit all the time. */
#pragma once

#include "lab.h"
#include "random.h"

struct model_address any_address(struct rng *rng);
uint16_t any_port(struct rng *rng);

/* Refills the sets of the lab, and the host's addresses and ports. */
void any_world(struct rng *rng, struct lab *lab);
/* Of those sets. */
struct model_policy any_policy(struct rng *rng, struct lab *lab);

struct any_packet {
	unsigned int ethertype;
	size_t size;
	uint8_t octets[LAB_PACKET_MAX];
};

/* With that protocol or next header. */
void any_packet4(struct rng *rng, struct any_packet *packet, uint8_t protocol);
void any_packet6(struct rng *rng, struct any_packet *packet, uint8_t next);
void any_packet(struct rng *rng, struct any_packet *packet);
/* From there to here, with ports behind a plain header. */
void any_reverse(struct any_packet *packet);
/* Bad version, other link protocol, cut anywhere, one octet changed, or nothing of all that. */
void any_spoil(struct rng *rng, struct any_packet *packet);
