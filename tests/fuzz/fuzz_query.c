/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of queries on arbitrary bytes, and the reply to each: within its limit, well-formed to
 * its last octet, with the client's id and question.
 */
#include <arpa/nameser.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "dns/query.h"
#include "dns/reply.h"
#include "net/addr.h"

#define CHECK(condition) \
	do { \
		if (!(condition)) \
			abort(); \
	} while (0)

#define BADVERS 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_name(const struct pg_dns_query *query)
{
	char text[PG_DNS_TEXT];
	struct pg_dns_name name;
	struct pg_addr addr;

	CHECK(query->name.octets[query->name.size - 1] == 0);
	if (!query->has_text) {
		CHECK(query->text[0] == '\0');
		return;
	}
	CHECK(pg_dns_name_from_text(query->text, &name) == 0);
	CHECK(pg_dns_name_equal(&name, &query->name));
	CHECK(pg_dns_name_to_text(&name, text) == 0);
	CHECK(strcmp(text, query->text) == 0);
	if (pg_dns_reverse_address(text, &addr))
		CHECK(strstr(text, ".arpa"));
}

/* Walks the reply: the counts of the header lead exactly to its end. */
static void check_message(const struct pg_dns_query *query, const uint8_t *data, size_t size)
{
	const struct pg_dns_message message = {.data = data, .size = size};
	uint16_t flags;
	size_t offset = HFIXEDSZ;
	unsigned int records = 0;

	CHECK(size >= HFIXEDSZ);
	flags = pg_dns_load16(&message, 2);
	CHECK(pg_dns_load16(&message, 0) == query->id);
	CHECK((flags & (PG_DNS_QR | PG_DNS_RA)) == (PG_DNS_QR | PG_DNS_RA));
	CHECK(!(flags & (PG_DNS_AA | PG_DNS_AD | PG_DNS_CD)));
	CHECK(!((flags ^ query->flags) & (PG_DNS_RD | PG_DNS_OPCODE)));
	CHECK(pg_dns_load16(&message, 4) == query->has_question);
	if (query->has_question) {
		CHECK(memcmp(data + offset, query->name.octets, query->name.size) == 0);
		offset += query->name.size;
		CHECK(pg_dns_load16(&message, offset) == query->type);
		CHECK(pg_dns_load16(&message, offset + 2) == query->class);
		offset += QFIXEDSZ;
	}
	for (size_t i = 6; i < HFIXEDSZ; i += 2)
		records += pg_dns_load16(&message, i);
	CHECK(pg_dns_load16(&message, 10) == query->edns);
	while (records-- > 0) {
		struct pg_dns_name owner;

		CHECK(pg_dns_name_read(&message, offset, &owner) == 0);
		CHECK(pg_dns_name_skip(&message, &offset) == 0);
		CHECK(offset + RRFIXEDSZ <= size);
		offset += RRFIXEDSZ + pg_dns_load16(&message, offset + 8);
	}
	CHECK(offset == size);
}

/* Replies as a resolver would give them, with and without what they may have. */
static void check_replies(const struct pg_dns_query *query, uint16_t rcode)
{
	static const size_t limits[] = {512, 520, 1232, PG_DNS_MESSAGE_MAX};
	static uint8_t buffer[PG_DNS_MESSAGE_MAX];
	struct pg_addr addrs[40] = {pg_addr_from_v4(1), {.word = {1}}};

	for (unsigned int i = 0; i < 16; i++) {
		PG_CLEANUP(pg_answer_freep) struct pg_answer *answer = NULL;
		struct pg_reply reply = {
			.rcode = rcode,
			.negative_ttl = i & 1 ? PG_REPLY_DENIED_TTL_S : 0,
			.ede = PG_EDE_FILTERED,
			.ede_text = i & 2 ? "a text" : NULL,
		};
		size_t size, limit = limits[i / 4];

		if (i & 1 && query->has_question) {
			answer = pg_answer_make(&query->name, query->type, addrs, 40, 60);
			CHECK(answer);
		}
		reply.answer = answer;
		size = pg_reply_write(query, &reply, buffer, limit);
		CHECK(size <= limit);
		check_message(query, buffer, size);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pg_dns_query query;

	switch (pg_dns_query_parse(data, size, &query)) {
	case PG_DNS_PARSED_DROP:
		CHECK(size < HFIXEDSZ || data[2] & 0x80);
		return 0;
	case PG_DNS_PARSED_OK:
		CHECK(query.has_question);
		check_replies(&query, ns_r_noerror);
		check_replies(&query, ns_r_nxdomain);
		break;
	case PG_DNS_PARSED_FORMERR:
		check_replies(&query, ns_r_formerr);
		break;
	case PG_DNS_PARSED_NOTIMP:
		check_replies(&query, ns_r_notimpl);
		break;
	case PG_DNS_PARSED_BADVERS:
		CHECK(query.edns && query.has_question);
		check_replies(&query, BADVERS);
		break;
	}
	CHECK(query.udp_size >= NS_PACKETSZ);
	if (query.has_question)
		check_name(&query);
	return 0;
}
