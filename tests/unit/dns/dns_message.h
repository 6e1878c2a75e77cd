/* SPDX-License-Identifier: Apache-2.0 */
/* Building DNS messages for tests, octet by octet, right or wrong. */
#pragma once

#include <criterion/criterion.h>

#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <string.h>

#include "dns/wire.h"

/* Offsets of the header's counts. */
#define DNS_ANSWERS	6
#define DNS_AUTHORITIES 8
#define DNS_ADDITIONALS 10

struct dns_message {
	uint8_t data[65535];
	size_t size;
};

/* One resource record: data is an address, or a name for CNAME. */
struct dns_record {
	const char *owner;
	uint16_t type;
	uint32_t ttl;
	const char *data;
};

static inline void dns_put8(struct dns_message *message, unsigned int value)
{
	cr_assert_lt(message->size, sizeof(message->data));
	message->data[message->size++] = (uint8_t)value;
}

static inline void dns_put16(struct dns_message *message, unsigned int value)
{
	dns_put8(message, value >> 8 & 0xff);
	dns_put8(message, value & 0xff);
}

static inline void dns_put32(struct dns_message *message, uint32_t value)
{
	dns_put16(message, value >> 16);
	dns_put16(message, value & 0xffff);
}

static inline void dns_put(struct dns_message *message, const void *octets, size_t size)
{
	for (size_t i = 0; i < size; i++)
		dns_put8(message, ((const uint8_t *)octets)[i]);
}

static inline void dns_put_name(struct dns_message *message, const char *name)
{
	while (*name) {
		size_t length = strcspn(name, ".");

		dns_put8(message, (unsigned int)length);
		for (size_t i = 0; i < length; i++)
			dns_put8(message, (uint8_t)name[i]);
		name += length + (name[length] == '.');
	}
	dns_put8(message, 0);
}

static inline void dns_set16(struct dns_message *message, size_t offset, unsigned int value)
{
	message->data[offset] = (uint8_t)(value >> 8);
	message->data[offset + 1] = (uint8_t)value;
}

/* Counts one more in the field of the header at offset. */
static inline void dns_count(struct dns_message *message, size_t offset)
{
	dns_set16(message, offset, (message->data[offset] << 8U | message->data[offset + 1]) + 1U);
}

/* Header with flags, and the question. */
static inline void dns_begin(struct dns_message *message, unsigned int id, unsigned int flags,
			     const char *name, uint16_t type)
{
	message->size = 0;
	dns_put16(message, id);
	dns_put16(message, flags);
	dns_put16(message, 1);
	dns_put16(message, 0);
	dns_put16(message, 0);
	dns_put16(message, 0);
	dns_put_name(message, name);
	dns_put16(message, type);
	dns_put16(message, ns_c_in);
}

/* Counts a record and writes its part after the owner's name. */
static inline void dns_put_record_rest(struct dns_message *message, const struct dns_record *record)
{
	size_t length_at;
	uint8_t addr[16];

	dns_count(message, DNS_ANSWERS);
	dns_put16(message, record->type);
	dns_put16(message, ns_c_in);
	dns_put32(message, record->ttl);
	length_at = message->size;
	dns_put16(message, 0);
	if (record->type == ns_t_a || record->type == ns_t_aaaa) {
		bool v4 = record->type == ns_t_a;

		cr_assert_eq(inet_pton(v4 ? AF_INET : AF_INET6, record->data, addr), 1);
		for (unsigned int i = 0; i < (v4 ? 4 : 16); i++)
			dns_put8(message, addr[i]);
	} else {
		dns_put_name(message, record->data);
	}
	dns_set16(message, length_at, (unsigned int)(message->size - length_at - 2));
}

static inline void dns_put_record(struct dns_message *message, const struct dns_record *record)
{
	dns_put_name(message, record->owner);
	dns_put_record_rest(message, record);
}

/* A record whose data is octets as they are; not counted. */
static inline void dns_put_raw(struct dns_message *message, const char *owner, uint16_t type,
			       uint32_t ttl, const void *data, size_t size)
{
	dns_put_name(message, owner);
	dns_put16(message, type);
	dns_put16(message, ns_c_in);
	dns_put32(message, ttl);
	dns_put16(message, (unsigned int)size);
	dns_put(message, data, size);
}

/* A copy of the exact size, so that the sanitizer sees a read behind the end. The caller frees. */
static inline uint8_t *dns_copy(const struct dns_message *message)
{
	uint8_t *copy = malloc(message->size ? message->size : 1);

	cr_assert(copy);
	memcpy(copy, message->data, message->size);
	return copy;
}

static inline struct pg_dns_name dns_name(const char *text)
{
	struct pg_dns_name name;

	cr_assert_eq(pg_dns_name_from_text(text, &name), 0, "%s", text);
	return name;
}

/* A name of 255 octets, the most that there may be: three labels of 63 and one of 61. */
static inline const char *dns_longest_name(void)
{
	static char text[PG_DNS_TEXT];

	memset(text, 'a', sizeof(text) - 1);
	text[63] = text[127] = text[191] = '.';
	return text;
}

/* What was written, and where it differs. */
static inline void dns_expect_octets(const uint8_t *octets, size_t size,
				     const struct dns_message *expected)
{
	cr_expect_eq(size, expected->size, "%zu octets instead of %zu", size, expected->size);
	for (size_t i = 0; i < size && i < expected->size; i++)
		cr_assert_eq(octets[i], expected->data[i], "octet %zu is %#x instead of %#x", i,
			     octets[i], expected->data[i]);
}
