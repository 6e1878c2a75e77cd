// SPDX-License-Identifier: Apache-2.0
/* RFC 791 (IPv4), RFC 8200 and 7045 (IPv6), RFC 9293 (TCP), RFC 4443 (ICMPv6). */
#include "model.h"

#include <string.h>

static uint16_t get16(const uint8_t *octets)
{
	return (uint16_t)(octets[0] << 8 | octets[1]);
}

static void read_tcp(const uint8_t *tcp, size_t size, struct model_packet *ret)
{
	if (size < 14) {
		ret->defect = MODEL_TRUNCATED;
		return;
	}
	ret->tcp = true;
	ret->tcp_flags = tcp[13];
	ret->tcp_payload = size > (size_t)(tcp[12] >> 4) * 4;
	ret->opens = tcp[13] & 0x02 && !(tcp[13] & 0x10);
}

void model_read_transport(const uint8_t *transport, size_t size, struct model_packet *ret)
{
	switch (ret->protocol) {
	case 6: /* TCP */
		read_tcp(transport, size, ret);
		if (ret->defect)
			return;
		break;
	case 17:  /* UDP */
	case 136: /* UDP-Lite */
	case 132: /* SCTP */
		if (size < 4) {
			ret->defect = MODEL_TRUNCATED;
			return;
		}
		break;
	case 58: /* ICMPv6 */
		if (size < 1) {
			ret->defect = MODEL_TRUNCATED;
			return;
		}
		ret->icmpv6 = true;
		ret->icmp_type = transport[0];
		return;
	default:
		return;
	}
	ret->ported = true;
	ret->source_port = get16(transport);
	ret->destination_port = get16(transport + 2);
}

static void read_ipv4(const uint8_t *octets, size_t size, struct model_packet *ret)
{
	if (size < 20 || octets[0] >> 4 != 4) {
		ret->defect = MODEL_TRUNCATED;
		return;
	}
	ret->addressed = true;
	ret->source.family = 4;
	memcpy(ret->source.octets, octets + 12, 4);
	ret->destination.family = 4;
	memcpy(ret->destination.octets, octets + 16, 4);
	ret->protocol = octets[9];
	/* Options can change the destination of a fragment too. */
	if ((octets[0] & 0xf) != 5)
		ret->defect = MODEL_IP_OPTIONS;
	else if (octets[6] & 0x20 || octets[6] & 0x1f || octets[7])
		ret->defect = MODEL_FRAGMENT;
	else
		model_read_transport(octets + 20, size - 20, ret);
}

/* RFC 7045 section 2: the extension headers, without hop-by-hop, fragment and ESP. */
static bool is_extension(uint8_t next)
{
	static const uint8_t extensions[] = {43, 51, 60, 135, 139, 140, 253, 254};

	return memchr(extensions, next, sizeof(extensions));
}

static void read_ipv6(const uint8_t *octets, size_t size, struct model_packet *ret)
{
	const uint8_t *rest = octets + 40;

	if (size < 40 || octets[0] >> 4 != 6) {
		ret->defect = MODEL_TRUNCATED;
		return;
	}
	ret->ipv6_header = true;
	ret->addressed = true;
	ret->source.family = 6;
	memcpy(ret->source.octets, octets + 8, 16);
	ret->destination.family = 6;
	memcpy(ret->destination.octets, octets + 24, 16);
	ret->protocol = octets[6];
	if (ret->protocol == 44) {
		ret->defect = MODEL_FRAGMENT;
	} else if (is_extension(ret->protocol)) {
		ret->defect = MODEL_EXTENSION;
	} else if (ret->protocol == 0) {
		/* Never sound: what a test run makes is too small for the jumbo option. */
		ret->defect = MODEL_EXTENSION;
		if (size >= 49 && rest[0] == 58 && rest[1] == 0) {
			ret->icmpv6 = true;
			ret->icmp_type = rest[8];
		}
	} else {
		model_read_transport(rest, size - 40, ret);
	}
}

void model_read_packet(unsigned int ethertype, const uint8_t *octets, size_t size,
		       struct model_packet *ret)
{
	memset(ret, 0, sizeof(*ret));
	switch (ethertype) {
	case 0x0800:
		read_ipv4(octets, size, ret);
		break;
	case 0x86dd:
		read_ipv6(octets, size, ret);
		break;
	default:
		ret->defect = MODEL_TRUNCATED;
		break;
	}
}
