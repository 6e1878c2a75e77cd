/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of DNS answers on arbitrary bytes: a length of two octets, so much of a response, and
 * the sections of a response about the end of its chain. Beside not crashing: an answer is within
 * its bounds, its sinks see what its counts say, and a reply that is made of it reads as the same
 * answer again.
 */
#include <arpa/nameser.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "dns/answer.h"
#include "dns/reply.h"

#define CHECK(condition) \
	do { \
		if (!(condition)) \
			abort(); \
	} while (0)

/* Answers, authorities and rcode of the second response stand before its sections. */
#define SECOND_HEAD 5

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct report {
	uint16_t type;
	unsigned int addresses, names;
};

static int count_address(void *userdata, const struct pg_addr *addr, uint32_t ttl)
{
	struct report *report = userdata;

	/* An AAAA record may hold an IPv4-mapped address; an A record cannot hold anything else. */
	CHECK(report->type != ns_t_a || pg_addr_is_v4(addr));
	CHECK(ttl <= PG_ANSWER_TTL_MAX_S);
	report->addresses++;
	return 0;
}

static int count_name(void *userdata, const struct pg_dns_name *name, uint32_t ttl)
{
	struct report *report = userdata;

	CHECK(name->size > 0 && name->octets[name->size - 1] == 0);
	CHECK(ttl <= PG_ANSWER_TTL_MAX_S);
	report->names++;
	return 0;
}

static void check_answer(const struct pg_answer *answer)
{
	struct report report = {.type = answer->type};

	CHECK(answer->chain <= PG_ANSWER_CHAIN_MAX && answer->chain <= answer->count);
	CHECK(answer->ttl <= PG_ANSWER_TTL_MAX_S);
	CHECK(answer->rcode == ns_r_noerror ||
	      (answer->rcode == ns_r_nxdomain && answer->count == answer->chain));
	CHECK(answer->chain > 0 || pg_dns_name_equal(&answer->target, &answer->question));
	CHECK(pg_answer_targets(answer, count_name, &report) == 0);
	CHECK(report.names == answer->chain);
	CHECK(pg_answer_addresses(answer, count_address, &report) == 0);
	if (answer->type == ns_t_a || answer->type == ns_t_aaaa)
		CHECK(report.addresses == answer->count - answer->chain);
	else
		CHECK(report.addresses == 0);
}

/* A reply with everything in it reads as the answer again; a shorter one says that it is. */
static void check_reply(const struct pg_answer *answer)
{
	static const size_t limits[] = {512, 700, 1232, PG_DNS_MESSAGE_MAX};
	static uint8_t buffer[PG_DNS_MESSAGE_MAX];
	const struct pg_dns_query query = {
		.has_question = true,
		.name = answer->question,
		.type = answer->type,
		.class = ns_c_in,
		.edns = answer->count % 2,
	};
	const struct pg_reply reply = {
		.rcode = answer->rcode,
		.answer = answer,
		.negative_ttl = answer->ttl,
		.ede_text = answer->chain % 2 ? "text" : NULL,
	};

	for (size_t i = 0; i < PG_ARRAY_SIZE(limits); i++) {
		PG_CLEANUP(pg_answer_freep) struct pg_answer *again = NULL;
		size_t size = pg_reply_write(&query, &reply, buffer, limits[i]);
		int r;

		CHECK(size <= limits[i]);
		r = pg_answer_read(buffer, size, &answer->question, answer->type, &again);
		CHECK((r < 0) == ((buffer[2] & PG_DNS_TC >> 8) != 0));
		if (r < 0)
			continue;
		CHECK(again->chain == answer->chain && again->count == answer->count);
		CHECK(again->rcode == answer->rcode);
		CHECK(again->size == answer->size);
		CHECK(memcmp(again->records, answer->records, answer->size) == 0);
	}
}

/* Reads the rest as what a server says about the end of the chain, and joins it. */
static void join(struct pg_answer **answer, const uint8_t *data, size_t size)
{
	const struct pg_dns_name target = (*answer)->target;
	PG_CLEANUP(pg_answer_freep) struct pg_answer *more = NULL;
	pg_autofree uint8_t *message = NULL;
	const uint16_t type = (*answer)->type;
	size_t whole = HFIXEDSZ + target.size + QFIXEDSZ + size - SECOND_HEAD;
	uint8_t *at;

	message = calloc(1, whole);
	CHECK(message);
	message[2] = PG_DNS_QR >> 8;
	message[3] = data[4] & 0xf;
	message[5] = 1;
	memcpy(message + 6, data, 4);
	at = message + HFIXEDSZ;
	memcpy(at, target.octets, target.size);
	at += target.size;
	*at++ = (uint8_t)(type >> 8);
	*at++ = (uint8_t)type;
	at++;
	*at++ = ns_c_in;
	memcpy(at, data + SECOND_HEAD, size - SECOND_HEAD);
	if (pg_answer_read(message, whole, &target, type, &more) < 0)
		return;
	check_answer(more);
	if (pg_answer_join(answer, more) < 0)
		return;
	CHECK((*answer)->dangling == more->dangling);
	check_answer(*answer);
	check_reply(*answer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	PG_CLEANUP(pg_answer_freep) struct pg_answer *answer = NULL;
	pg_autofree uint8_t *copy = NULL;
	struct pg_dns_message message;
	struct pg_dns_name question;
	size_t offset = HFIXEDSZ;

	if (size < 2)
		return 0;
	message.size = (size_t)(data[0] << 8 | data[1]);
	data += 2;
	size -= 2;
	if (message.size > size)
		message.size = size;
	message.data = copy = malloc(message.size + 1);
	CHECK(copy);
	memcpy(copy, data, message.size);
	/* The question is taken from the response, so that any is the right one. */
	if (pg_dns_name_read(&message, offset, &question) < 0 ||
	    pg_dns_name_skip(&message, &offset) < 0 || offset + QFIXEDSZ > message.size)
		return 0;
	if (pg_answer_read(message.data, message.size, &question, pg_dns_load16(&message, offset),
			   &answer) < 0)
		return 0;
	CHECK(answer->size <= PG_ANSWER_RECORDS_MAX);
	check_answer(answer);
	check_reply(answer);
	if (answer->dangling && size - message.size >= SECOND_HEAD)
		join(&answer, data + message.size, size - message.size);
	return 0;
}
