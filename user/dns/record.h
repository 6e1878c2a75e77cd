/* SPDX-License-Identifier: Apache-2.0 */
/* Resource records: one in a message, and what is kept of it. Private to the DNS codec. */
#pragma once

#include "answer.h"
#include "wire.h"
#include "writer.h"

/* Offsets are those in the message. */
struct pg_record {
	size_t owner;
	uint16_t type, class;
	uint32_t ttl; /* bounded by PG_ANSWER_TTL_MAX_S */
	size_t data;
	uint16_t data_size;
};

/* Reads the record at *offset and moves behind it. -EBADMSG. */
int pg_record_read(const struct pg_dns_message *message, size_t *offset,
		   struct pg_record *ret_record) PG_MUST_CHECK;

/*
 * Writes the record's data: names in it uncompressed, hints to addresses left out. -EBADMSG if it
 * is not what its type wants. Data of other types is taken as it is (RFC 3597).
 */
int pg_record_copy_data(const struct pg_dns_message *message, const struct pg_record *record,
			struct pg_dns_writer *writer) PG_MUST_CHECK;

/* Writes a record without its data, and the length of it. */
void pg_record_put_head(struct pg_dns_writer *writer, const struct pg_dns_name *owner,
			uint16_t type, uint32_t ttl, uint16_t data_size);

/* A zeroed answer with room for size octets of records in the same piece of memory. */
struct pg_answer *pg_answer_new(const struct pg_dns_name *question, uint16_t type, size_t size);

/*
 * The next record of the answer, with offsets in answer->records; false behind the last. An answer
 * is well-formed because only this folder writes it.
 */
bool pg_answer_next(const struct pg_answer *answer, size_t *offset, struct pg_record *ret_record);
