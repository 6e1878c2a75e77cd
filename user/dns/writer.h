/* SPDX-License-Identifier: Apache-2.0 */
/* Writing the DNS wire format into a buffer that is known to be large enough, or only counting. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "wire.h"

struct pg_dns_writer {
	uint8_t *data; /* NULL: what would be written is counted only */
	size_t size;
};

static inline void pg_dns_put(struct pg_dns_writer *writer, const void *octets, size_t size)
{
	if (writer->data)
		memcpy(writer->data + writer->size, octets, size);
	writer->size += size;
}

static inline void pg_dns_put16(struct pg_dns_writer *writer, uint16_t value)
{
	const uint8_t octets[] = {(uint8_t)(value >> 8), (uint8_t)value};

	pg_dns_put(writer, octets, sizeof(octets));
}

static inline void pg_dns_put32(struct pg_dns_writer *writer, uint32_t value)
{
	pg_dns_put16(writer, (uint16_t)(value >> 16));
	pg_dns_put16(writer, (uint16_t)value);
}

static inline void pg_dns_put_name(struct pg_dns_writer *writer, const struct pg_dns_name *name)
{
	pg_dns_put(writer, name->octets, name->size);
}

/* Replaces what stands at offset. */
static inline void pg_dns_set16(struct pg_dns_writer *writer, size_t offset, uint16_t value)
{
	struct pg_dns_writer at = {.data = writer->data, .size = offset};

	pg_dns_put16(&at, value);
}
