// SPDX-License-Identifier: Apache-2.0
#include "any.h"

#include <string.h>

#define ETHERTYPE_IP4 0x0800
#define ETHERTYPE_IP6 0x86dd

static const char *const addresses4[] = {"10.0.0.1",	    "10.0.0.2",	      "10.0.9.9",
					 "127.0.0.1",	    "127.0.0.53",     "0.0.0.0",
					 "224.0.0.251",	    "10.0.0.9",	      "127.0.0.0",
					 "255.255.255.255", "127.255.255.255"};
static const char *const addresses6[] = {"2001:db8::1", "2001:db8::2", "::ffff:10.0.0.1",
					 "::10.0.0.1",	"::",	       "::1",
					 "ff02::16",	"fe80::1",     "2001:db8::9"};
static const uint8_t next_headers[] = {0,  4,  6,   17,	 33,  41,  43,	44,  47,  50,  51, 58,
				       59, 60, 132, 135, 136, 139, 140, 253, 254, 255, 1,  2};

static void put16(uint8_t *octets, unsigned int value)
{
	octets[0] = (uint8_t)(value >> 8);
	octets[1] = (uint8_t)value;
}

/* Random octets behind the header: ports out of few, flags and lengths out of all. */
static void fill_transport(struct rng *rng, uint8_t *transport, size_t size)
{
	for (size_t i = 0; i < size; i++)
		transport[i] = (uint8_t)rng_next(rng);
	if (size >= 4 && !rng_one_in(rng, 4)) {
		put16(transport, rng_one_in(rng, 2) ? 12345 : any_port(rng));
		put16(transport + 2, rng_one_in(rng, 2) ? 53 : any_port(rng));
	}
	if (size >= 13 && rng_one_in(rng, 2))
		transport[12] = 0x50;
}

void any_packet4(struct rng *rng, struct any_packet *packet, uint8_t protocol)
{
	const size_t words = rng_one_in(rng, 8) ? rng_below(rng, 16) : 5;
	const struct model_address source = lab_parse(RNG_PICK(rng, addresses4));
	const struct model_address destination = lab_parse(RNG_PICK(rng, addresses4));
	uint8_t *ip = packet->octets;

	packet->ethertype = ETHERTYPE_IP4;
	packet->size = 60 + rng_below(rng, 40);
	memset(ip, 0, 20);
	fill_transport(rng, ip + 20, packet->size - 20);
	ip[0] = (uint8_t)(0x40 | words);
	ip[6] = rng_one_in(rng, 8) ? (uint8_t)rng_next(rng) : rng_one_in(rng, 2) ? 0x40 : 0;
	ip[7] = rng_one_in(rng, 16) ? (uint8_t)rng_next(rng) : 0;
	ip[9] = protocol;
	memcpy(ip + 12, source.octets, 4);
	memcpy(ip + 16, destination.octets, 4);
}

void any_packet6(struct rng *rng, struct any_packet *packet, uint8_t next)
{
	const struct model_address source = lab_parse(RNG_PICK(rng, addresses6));
	const struct model_address destination = lab_parse(RNG_PICK(rng, addresses6));
	uint8_t *ip = packet->octets;

	packet->ethertype = ETHERTYPE_IP6;
	packet->size = 80 + rng_below(rng, 40);
	memset(ip, 0, 40);
	fill_transport(rng, ip + 40, packet->size - 40);
	ip[0] = 0x60;
	ip[6] = next;
	memcpy(ip + 8, source.octets, 16);
	memcpy(ip + 24, destination.octets, 16);
	if (next == 0 && !rng_one_in(rng, 4)) {
		ip[40] = rng_one_in(rng, 2) ? 58 : RNG_PICK(rng, next_headers);
		ip[41] = rng_one_in(rng, 4) ? (uint8_t)rng_below(rng, 3) : 0;
		/* Router alert, or the jumbo option that only a packet over 64 KiB may have. */
		memcpy(ip + 42, rng_one_in(rng, 2) ? "\x05\x02" : "\xc2\x04", 2);
		ip[48] = rng_one_in(rng, 2) ? 143 : ip[48];
	}
}

static void swap(uint8_t *a, uint8_t *b, size_t size)
{
	uint8_t octets[16];

	memcpy(octets, a, size);
	memcpy(a, b, size);
	memcpy(b, octets, size);
}

void any_reverse(struct any_packet *packet)
{
	uint8_t *octets = packet->octets;

	if (packet->ethertype == ETHERTYPE_IP4) {
		swap(octets + 12, octets + 16, 4);
		swap(octets + 20, octets + 22, 2);
	} else {
		swap(octets + 8, octets + 24, 16);
		swap(octets + 40, octets + 42, 2);
	}
}

void any_packet(struct rng *rng, struct any_packet *packet)
{
	uint8_t next = rng_one_in(rng, 2) ? 6 : 17;

	if (rng_one_in(rng, 2))
		next = rng_one_in(rng, 4) ? (uint8_t)rng_next(rng) : RNG_PICK(rng, next_headers);
	if (rng_one_in(rng, 2))
		any_packet4(rng, packet, next);
	else
		any_packet6(rng, packet, next);
}

/* Bad version, other link protocol, cut anywhere, one octet changed. */
void any_spoil(struct rng *rng, struct any_packet *packet)
{
	switch (rng_below(rng, 12)) {
	case 0:
		packet->octets[0] = (uint8_t)rng_next(rng);
		break;
	case 1:
		packet->ethertype = rng_one_in(rng, 2) ? 0x0806 : 0x8847;
		break;
	case 2:
		packet->ethertype ^= ETHERTYPE_IP4 ^ ETHERTYPE_IP6;
		break;
	case 3:
	case 4:
		packet->size = rng_below(rng, (unsigned int)packet->size) + 1;
		break;
	case 5:
		packet->octets[rng_below(rng, 48)] ^= (uint8_t)(1U << rng_below(rng, 8));
		break;
	}
}
