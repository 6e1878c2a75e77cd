/* SPDX-License-Identifier: Apache-2.0 */
#include "reply.h"

#include <arpa/nameser.h>

#include "record.h"

/* Largest UDP message that passes everywhere without fragments (DNS flag day 2020). */
#define UDP_SIZE 1232

/* EDNS: octets of an OPT record without options; the code of an extended error (RFC 8914, 2). */
#define OPT_SIZE   (1 + RRFIXEDSZ)
#define OPTION_EDE 15
#define EDE_HEAD   6
/* With this, all but answers fits into 512 octets, whatever the question's name is. */
#define EDE_TEXT   160

#define POINTER 0xc000

/* Both names of the SOA record are this one, the second as a pointer. */
static const uint8_t soa_name[] = "\x09phasegate\x07invalid";
#define SOA_DATA (sizeof(soa_name) + 2 + 20)
#define SOA_SIZE (2 + RRFIXEDSZ + SOA_DATA)

/* Refresh, retry and expire mean something to secondary servers alone, which there are none of. */
#define SOA_INTERVAL_S 3600

_Static_assert(HFIXEDSZ + PG_DNS_NAME_MAX + QFIXEDSZ + SOA_SIZE + OPT_SIZE + EDE_HEAD + EDE_TEXT <=
		       NS_PACKETSZ,
	       "a reply without answers does not fit");

struct text {
	const char *data;
	size_t size;
};

/* The extended error's text, cut between two characters of UTF-8. */
static struct text ede_text(const struct pg_reply *reply)
{
	struct text text = {.data = reply->ede_text};

	text.size = strlen(text.data);
	if (text.size <= EDE_TEXT)
		return text;
	text.size = EDE_TEXT;
	while (text.size > 0 && ((uint8_t)text.data[text.size] & 0xc0) == 0x80)
		text.size--;
	return text;
}

static size_t opt_size(const struct pg_dns_query *query, const struct pg_reply *reply)
{
	if (!query->edns)
		return 0;
	return OPT_SIZE + (reply->ede_text ? EDE_HEAD + ede_text(reply).size : 0);
}

static void put_opt(struct pg_dns_writer *writer, const struct pg_reply *reply)
{
	struct text text;

	pg_dns_put(writer, "", 1);
	pg_dns_put16(writer, ns_t_opt);
	pg_dns_put16(writer, UDP_SIZE);
	/* Upper bits of the rcode, version 0, no flags. */
	pg_dns_put32(writer, (uint32_t)(reply->rcode >> 4) << 24);
	if (!reply->ede_text) {
		pg_dns_put16(writer, 0);
		return;
	}
	text = ede_text(reply);
	pg_dns_put16(writer, (uint16_t)(EDE_HEAD + text.size));
	pg_dns_put16(writer, OPTION_EDE);
	pg_dns_put16(writer, (uint16_t)(2 + text.size));
	pg_dns_put16(writer, reply->ede);
	pg_dns_put(writer, text.data, text.size);
}

static void put_record_head(struct pg_dns_writer *writer, size_t owner, uint16_t type, uint32_t ttl,
			    size_t data_size)
{
	pg_dns_put16(writer, (uint16_t)(POINTER | owner));
	pg_dns_put16(writer, type);
	pg_dns_put16(writer, ns_c_in);
	pg_dns_put32(writer, ttl);
	pg_dns_put16(writer, (uint16_t)data_size);
}

static uint32_t lowered(uint32_t ttl, uint32_t age)
{
	return ttl > age ? ttl - age : 0;
}

/*
 * Writes what fits of the answer's records. A record's owner is the question or, behind a CNAME of
 * the chain, that one's target: in either case a name that stands in the message already. *owner is
 * its offset. A whole chain ends far below the 16384 octets that a pointer reaches.
 */
static unsigned int put_answers(struct pg_dns_writer *writer, const struct pg_reply *reply,
				size_t room, size_t *owner)
{
	const struct pg_answer *answer = reply->answer;
	unsigned int count = 0;
	struct pg_record record;
	size_t offset = 0;

	while (pg_answer_next(answer, &offset, &record)) {
		if (writer->size + 2 + RRFIXEDSZ + record.data_size > room)
			break;
		put_record_head(writer, *owner, record.type, lowered(record.ttl, reply->age),
				record.data_size);
		if (count < answer->chain)
			*owner = writer->size;
		pg_dns_put(writer, answer->records + record.data, record.data_size);
		count++;
	}
	return count;
}

static void put_soa(struct pg_dns_writer *writer, size_t owner, uint32_t ttl)
{
	size_t name;

	put_record_head(writer, owner, ns_t_soa, ttl, SOA_DATA);
	name = writer->size;
	pg_dns_put(writer, soa_name, sizeof(soa_name));
	pg_dns_put16(writer, (uint16_t)(POINTER | name));
	pg_dns_put32(writer, 1);
	for (unsigned int i = 0; i < 3; i++)
		pg_dns_put32(writer, SOA_INTERVAL_S);
	pg_dns_put32(writer, ttl);
}

static void put_question(struct pg_dns_writer *writer, const struct pg_dns_query *query)
{
	pg_dns_put_name(writer, &query->name);
	pg_dns_put16(writer, query->type);
	pg_dns_put16(writer, query->class);
}

/* Whether the reply has a place for a SOA record: no record of the type that was asked for. */
static bool wants_soa(const struct pg_dns_query *query, const struct pg_reply *reply)
{
	return query->has_question && reply->negative_ttl &&
	       (!reply->answer || reply->answer->count == reply->answer->chain);
}

size_t pg_reply_write(const struct pg_dns_query *query, const struct pg_reply *reply,
		      uint8_t *buffer, size_t limit)
{
	struct pg_dns_writer writer = {.size = HFIXEDSZ}, header = {.size = 0};
	unsigned int answers = 0, authorities = 0;
	bool truncated = false;
	size_t owner = HFIXEDSZ, room;

	if (limit > PG_DNS_MESSAGE_MAX)
		limit = PG_DNS_MESSAGE_MAX;
	room = limit - opt_size(query, reply);
	writer.data = header.data = buffer;
	if (query->has_question)
		put_question(&writer, query);
	if (query->has_question && reply->answer) {
		answers = put_answers(&writer, reply, room, &owner);
		truncated = answers < reply->answer->count;
	}
	if (!truncated && wants_soa(query, reply)) {
		if (writer.size + SOA_SIZE <= room) {
			put_soa(&writer, owner, lowered(reply->negative_ttl, reply->age));
			authorities = 1;
		} else {
			truncated = true;
		}
	}
	if (query->edns)
		put_opt(&writer, reply);
	pg_dns_put16(&header, query->id);
	pg_dns_put16(&header, (uint16_t)(PG_DNS_QR | PG_DNS_RA | (truncated ? PG_DNS_TC : 0) |
					 (query->flags & (PG_DNS_OPCODE | PG_DNS_RD)) |
					 (reply->rcode & 0xf)));
	pg_dns_put16(&header, query->has_question);
	pg_dns_put16(&header, (uint16_t)answers);
	pg_dns_put16(&header, (uint16_t)authorities);
	pg_dns_put16(&header, query->edns);
	return writer.size;
}
