/* SPDX-License-Identifier: Apache-2.0 */
#include "answer.h"

#include <arpa/nameser.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* Octets of a name on the wire, and labels in it (RFC 1035, 2.3.4). */
#define NAME_MAX_OCTETS 255
#define POINTERS_MAX	127

/* QR and the opcode in the second 16 bits of the header. */
#define FLAG_RESPONSE 0x8000
#define FLAGS_OPCODE  0x7800

struct message {
	const uint8_t *data;
	size_t size;
	size_t answers; /* where the answer section begins */
	unsigned int answer_count;
};

/* A name as it stands on the wire, uncompressed and in lower case. */
struct wire_name {
	uint8_t octets[NAME_MAX_OCTETS];
	size_t size;
};

struct record {
	size_t owner; /* offset of its name */
	uint16_t type, class;
	uint32_t ttl;
	size_t data, data_size;
};

static uint16_t load16(const struct message *message, size_t offset)
{
	return (uint16_t)(message->data[offset] << 8 | message->data[offset + 1]);
}

static uint32_t load32(const struct message *message, size_t offset)
{
	return (uint32_t)load16(message, offset) << 16 | load16(message, offset + 2);
}

static uint8_t lower(uint8_t c)
{
	return c >= 'A' && c <= 'Z' ? (uint8_t)(c - 'A' + 'a') : c;
}

/* Moves *offset behind the name that stands there, without following pointers. */
static int skip_name(const struct message *message, size_t *offset)
{
	size_t at = *offset;

	while (at < message->size) {
		uint8_t length = message->data[at];

		if (length == 0) {
			*offset = at + 1;
			return 0;
		}
		if ((length & 0xc0) == 0xc0) {
			*offset = at + 2;
			return at + 2 <= message->size ? 0 : -EBADMSG;
		}
		if (length & 0xc0)
			return -EBADMSG;
		at += 1U + length;
	}
	return -EBADMSG;
}

/* Appends the label at offset. */
static int append_label(const struct message *message, size_t offset, struct wire_name *name)
{
	size_t length = message->data[offset];

	if (offset + 1 + length > message->size || name->size + 1 + length > NAME_MAX_OCTETS)
		return -EBADMSG;
	name->octets[name->size++] = (uint8_t)length;
	for (size_t i = 1; i <= length; i++)
		name->octets[name->size++] = lower(message->data[offset + i]);
	return 0;
}

/* Reads the name at offset. A pointer must lead backwards, so that no loop can be built. */
static int read_name(const struct message *message, size_t offset, struct wire_name *ret_name)
{
	size_t limit = offset;
	unsigned int pointers = 0;

	ret_name->size = 0;
	while (offset < message->size) {
		uint8_t length = message->data[offset];

		if ((length & 0xc0) == 0xc0) {
			if (offset + 2 > message->size || ++pointers > POINTERS_MAX)
				return -EBADMSG;
			offset = load16(message, offset) & 0x3fff;
			if (offset >= limit)
				return -EBADMSG;
			limit = offset;
			continue;
		}
		if (length & 0xc0)
			return -EBADMSG;
		if (append_label(message, offset, ret_name) < 0)
			return -EBADMSG;
		if (length == 0)
			return 0;
		offset += 1U + length;
	}
	return -EBADMSG;
}

/* "api.example.com" -> 3 api 7 example 3 com 0 */
static int encode_name(const char *text, struct wire_name *ret_name)
{
	ret_name->size = 0;
	while (*text) {
		size_t length = strcspn(text, ".");

		if (length == 0 || length > 63 || ret_name->size + length + 2 > NAME_MAX_OCTETS)
			return -EBADMSG;
		ret_name->octets[ret_name->size++] = (uint8_t)length;
		for (size_t i = 0; i < length; i++)
			ret_name->octets[ret_name->size++] = lower((uint8_t)text[i]);
		text += length;
		text += *text == '.';
	}
	ret_name->octets[ret_name->size++] = 0;
	return 0;
}

static bool names_equal(const struct wire_name *a, const struct wire_name *b)
{
	return a->size == b->size && memcmp(a->octets, b->octets, a->size) == 0;
}

/* Reads the record at *offset and moves behind it. */
static int read_record(const struct message *message, size_t *offset, struct record *ret_record)
{
	size_t at = *offset;

	if (skip_name(message, &at) < 0 || at + RRFIXEDSZ > message->size)
		return -EBADMSG;
	*ret_record = (struct record){
		.owner = *offset,
		.type = load16(message, at),
		.class = load16(message, at + 2),
		.ttl = load32(message, at + 4),
		.data = at + RRFIXEDSZ,
		.data_size = load16(message, at + 8),
	};
	/* A TTL with the top bit set means zero (RFC 2181, 8). */
	if (ret_record->ttl > INT32_MAX)
		ret_record->ttl = 0;
	if (ret_record->data + ret_record->data_size > message->size)
		return -EBADMSG;
	*offset = ret_record->data + ret_record->data_size;
	return 0;
}

/* Whether the record is of the type and belongs to name; negative if its owner is malformed. */
static int matches(const struct message *message, const struct record *record, uint16_t type,
		   const struct wire_name *name)
{
	struct wire_name owner;

	if (record->type != type || record->class != ns_c_in)
		return 0;
	if (read_name(message, record->owner, &owner) < 0)
		return -EBADMSG;
	return names_equal(&owner, name);
}

/*
 * Follows one CNAME: replaces *name by its target and lowers *ttl. Returns 1, or 0 if name has no
 * CNAME. Of several the first counts. Walks the whole section, and so proves it well-formed.
 */
static int follow_cname(const struct message *message, struct wire_name *name, uint32_t *ttl)
{
	struct wire_name target;
	size_t offset = message->answers;
	int found = 0;

	for (unsigned int i = 0; i < message->answer_count; i++) {
		struct record record;
		size_t end;
		int r;

		if (read_record(message, &offset, &record) < 0)
			return -EBADMSG;
		if (found)
			continue;
		r = matches(message, &record, ns_t_cname, name);
		if (r < 0)
			return r;
		if (r == 0)
			continue;
		end = record.data;
		if (skip_name(message, &end) < 0 || end != record.data + record.data_size ||
		    read_name(message, record.data, &target) < 0)
			return -EBADMSG;
		if (record.ttl < *ttl)
			*ttl = record.ttl;
		found = 1;
	}
	if (found)
		*name = target;
	return found;
}

static struct pg_addr record_address(const struct message *message, const struct record *record)
{
	const uint8_t *data = message->data + record->data;
	__be32 v4;

	if (record->data_size == 16)
		return pg_addr_from_bytes(data);
	memcpy(&v4, data, sizeof(v4));
	return pg_addr_from_v4(v4);
}

/* Counts the addresses of name, and shows them to the sink if there is one. */
static int walk_addresses(const struct message *message, const struct wire_name *name,
			  uint16_t type, uint32_t chain_ttl, pg_answer_sink sink, void *userdata)
{
	const size_t data_size = type == ns_t_a ? 4 : 16;
	size_t offset = message->answers;
	int count = 0;

	for (unsigned int i = 0; i < message->answer_count; i++) {
		struct record record;
		struct pg_addr addr;
		int r;

		r = read_record(message, &offset, &record);
		if (r < 0)
			return r;
		r = matches(message, &record, type, name);
		if (r < 0)
			return r;
		if (r == 0)
			continue;
		if (record.data_size != data_size)
			return -EBADMSG;
		count++;
		if (!sink)
			continue;
		addr = record_address(message, &record);
		r = sink(userdata, &addr, record.ttl < chain_ttl ? record.ttl : chain_ttl);
		if (r < 0)
			return r;
	}
	return count;
}

/* Checks the header and that the one question is name and type. */
static int read_question(struct message *message, const struct wire_name *name, uint16_t type)
{
	struct wire_name asked;
	size_t offset = HFIXEDSZ;

	if (message->size < HFIXEDSZ)
		return -EBADMSG;
	if ((load16(message, 2) & (FLAG_RESPONSE | FLAGS_OPCODE)) != FLAG_RESPONSE)
		return -EBADMSG;
	if (load16(message, 4) != 1)
		return -EBADMSG;
	if (read_name(message, offset, &asked) < 0 || skip_name(message, &offset) < 0 ||
	    offset + QFIXEDSZ > message->size)
		return -EBADMSG;
	if (!names_equal(&asked, name) || load16(message, offset) != type ||
	    load16(message, offset + 2) != ns_c_in)
		return -EBADMSG;
	message->answers = offset + QFIXEDSZ;
	message->answer_count = load16(message, 6);
	return 0;
}

int pg_answer_addresses(const uint8_t *message, size_t size, const char *name, uint16_t type,
			pg_answer_sink sink, void *userdata)
{
	struct message parsed = {.data = message, .size = size};
	uint32_t ttl = INT32_MAX;
	struct wire_name wire;
	unsigned int steps = 0;
	int r;

	r = encode_name(name, &wire);
	if (r < 0)
		return r;
	r = read_question(&parsed, &wire, type);
	if (r < 0)
		return r;
	do {
		r = follow_cname(&parsed, &wire, &ttl);
		if (r < 0)
			return r;
		if (r > 0 && ++steps > PG_ANSWER_CHAIN_MAX)
			return -ELOOP;
	} while (r > 0);
	r = walk_addresses(&parsed, &wire, type, ttl, NULL, NULL);
	if (r <= 0)
		return r;
	return walk_addresses(&parsed, &wire, type, ttl, sink, userdata);
}
