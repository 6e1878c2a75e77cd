/* SPDX-License-Identifier: Apache-2.0 */
/* Building DNS messages for tests, octet by octet, right or wrong. */
#pragma once

#include <criterion/criterion.h>

#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <string.h>

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

	dns_set16(message, 6, (message->data[6] << 8U | message->data[7]) + 1U);
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
