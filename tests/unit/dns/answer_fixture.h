/* SPDX-License-Identifier: Apache-2.0 */
/* Reading answers in tests: the message, the answer that was read of it, and what is in that. */
#pragma once

#include <stdio.h>
#include <stdlib.h>

#include "dns/answer.h"
#include "dns_message.h"

#define RESPONSE 0x8180

/* The question of all of them. */
#define ASKED "www.example.com"

static struct dns_message message;
static struct pg_answer *answer;

static inline void free_answer(void)
{
	pg_answer_free(answer);
}

static inline int collect(void *userdata, const struct pg_addr *addr, uint32_t ttl)
{
	char text[PG_ADDR_TEXT], *found = userdata;
	size_t used = strlen(found);

	snprintf(found + used, 1024 - used, "%s=%u ", pg_addr_format(addr, text), ttl);
	return 0;
}

static inline int collect_name(void *userdata, const struct pg_dns_name *name, uint32_t ttl)
{
	char text[PG_DNS_TEXT], *found = userdata;
	size_t used = strlen(found);

	cr_assert_eq(pg_dns_name_to_text(name, text), 0);
	snprintf(found + used, 1024 - used, "%s=%u ", text, ttl);
	return 0;
}

/* Reads the message as an answer to a question of the type for www.example.com. */
static inline int read_answer(uint16_t type)
{
	pg_autofree uint8_t *copy = dns_copy(&message);
	const struct pg_dns_name question = dns_name(ASKED);
	struct pg_answer *read = NULL;
	int r;

	r = pg_answer_read(copy, message.size, &question, type, &read);
	cr_expect_eq(!read, r < 0);
	pg_answer_free(answer);
	answer = read;
	return r;
}

static inline void expect_addresses(const char *text)
{
	char found[1024] = "";

	cr_assert(answer);
	cr_expect_eq(pg_answer_addresses(answer, collect, found), 0);
	cr_expect_str_eq(found, text, "%s instead of %s", found, text);
}

static inline void expect_targets(const char *text)
{
	char found[1024] = "";

	cr_assert(answer);
	cr_expect_eq(pg_answer_targets(answer, collect_name, found), 0);
	cr_expect_str_eq(found, text, "%s instead of %s", found, text);
}

static inline void put_records(const struct dns_record *records, size_t count, uint16_t type)
{
	dns_begin(&message, 1, RESPONSE, ASKED, type);
	for (size_t i = 0; i < count; i++)
		dns_put_record(&message, &records[i]);
}

#define RECORDS(type, ...) \
	do { \
		const struct dns_record records_[] = {__VA_ARGS__}; \
		put_records(records_, PG_ARRAY_SIZE(records_), type); \
	} while (0)

/* The addresses found among the records. */
#define EXPECT(type, text, ...) \
	do { \
		RECORDS(type, __VA_ARGS__); \
		cr_assert_eq(read_answer(type), 0); \
		expect_addresses(text); \
	} while (0)

/* A SOA record in the authority section. */
static inline void put_soa(const char *owner, uint32_t ttl, uint32_t minimum)
{
	static const uint8_t numbers[16] = {0};
	size_t length_at;

	dns_count(&message, DNS_AUTHORITIES);
	dns_put_raw(&message, owner, ns_t_soa, ttl, NULL, 0);
	length_at = message.size - 2;
	dns_put_name(&message, "ns.example.com");
	dns_put_name(&message, "root.example.com");
	dns_put(&message, numbers, sizeof(numbers));
	dns_put32(&message, minimum);
	dns_set16(&message, length_at, (unsigned int)(message.size - length_at - 2));
}
