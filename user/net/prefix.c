/* SPDX-License-Identifier: Apache-2.0 */
#include "prefix.h"

#include <stdio.h>
#include <string.h>

/* Bits before the prefix's own within the 128 of struct pg_addr. */
static unsigned int family_offset(const struct pg_prefix *prefix)
{
	return prefix->v4 ? 96 : 0;
}

struct pg_prefix pg_prefix_from_addr(const struct pg_addr *addr)
{
	bool v4 = pg_addr_is_v4(addr);

	return (struct pg_prefix){.addr = *addr, .length = v4 ? 32 : 128, .v4 = v4};
}

bool pg_prefix_is_exact(const struct pg_prefix *prefix)
{
	return prefix->length == (prefix->v4 ? 32 : 128);
}

bool pg_prefix_contains(const struct pg_prefix *prefix, const struct pg_addr *addr)
{
	struct pg_prefix other = {.addr = *addr, .length = prefix->length, .v4 = prefix->v4};

	/* ::/0 does not hold IPv4: the families are separate, as the kernel's tables are. */
	if (prefix->v4 != pg_addr_is_v4(addr))
		return false;
	pg_prefix_mask(&other);
	return pg_addr_compare(&other.addr, &prefix->addr) == 0;
}

/* The IPv4 address from bit (a multiple of 16) of the IPv6 address on. */
static struct pg_prefix embed(const struct pg_prefix *v4, const uint16_t groups[static 8],
			      unsigned int bit)
{
	const uint8_t *octets = (const uint8_t *)&v4->addr.word[3];
	struct pg_prefix prefix = {.length = (uint8_t)(bit + v4->length)};
	uint8_t bytes[16];

	for (size_t i = 0; i < 8; i++) {
		bytes[2 * i] = (uint8_t)(groups[i] >> 8);
		bytes[2 * i + 1] = (uint8_t)groups[i];
	}
	memcpy(bytes + bit / 8, octets, 4);
	prefix.addr = pg_addr_from_bytes(bytes);
	return prefix;
}

void pg_prefix_forms(const struct pg_prefix *v4, struct pg_prefix ret_forms[static PG_PREFIX_FORMS])
{
	static const struct {
		uint16_t groups[8];
		unsigned int bit;
	} forms[PG_PREFIX_FORMS] = {
		{{0x64, 0xff9b}, 96},	       /* NAT64, well-known */
		{{0x64, 0xff9b, 1}, 96},       /* NAT64, of the place, as a rule */
		{{0x2002}, 16},		       /* 6to4 */
		{{0, 0, 0, 0, 0xffff, 0}, 96}, /* translated */
	};

	for (size_t i = 0; i < PG_PREFIX_FORMS; i++)
		ret_forms[i] = embed(v4, forms[i].groups, forms[i].bit);
}

int pg_prefix_compare(const struct pg_prefix *a, const struct pg_prefix *b)
{
	int order;

	if (a->v4 != b->v4)
		return a->v4 ? -1 : 1;
	order = pg_addr_compare(&a->addr, &b->addr);
	return order ? order : (int)a->length - (int)b->length;
}

bool pg_prefix_mask(struct pg_prefix *prefix)
{
	unsigned int keep = family_offset(prefix) + prefix->length;
	uint8_t bytes[16];
	bool cleared = false;

	memcpy(bytes, prefix->addr.word, sizeof(bytes));
	for (unsigned int i = keep / 8; i < sizeof(bytes); i++) {
		uint8_t mask = i == keep / 8 ? (uint8_t)(0xff00 >> keep % 8) : 0;

		cleared |= (bytes[i] & ~mask) != 0;
		bytes[i] &= mask;
	}
	memcpy(prefix->addr.word, bytes, sizeof(bytes));
	return cleared;
}

const char *pg_prefix_format(const struct pg_prefix *prefix, char buffer[static PG_ADDR_TEXT])
{
	size_t used;

	pg_addr_format(&prefix->addr, buffer);
	if (pg_prefix_is_exact(prefix))
		return buffer;
	used = strlen(buffer);
	snprintf(buffer + used, PG_ADDR_TEXT - used, "/%u", prefix->length);
	return buffer;
}
