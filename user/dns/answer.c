/* SPDX-License-Identifier: Apache-2.0 */
#include "answer.h"

#include <arpa/nameser.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "record.h"

struct pg_answer *pg_answer_new(const struct pg_dns_name *question, uint16_t type, size_t size)
{
	struct pg_answer *answer = malloc(sizeof(*answer) + size);

	if (!answer)
		return NULL;
	*answer = (struct pg_answer){
		.question = *question,
		.type = type,
		.rcode = ns_r_noerror,
		.target = *question,
		.ttl = PG_ANSWER_TTL_MAX_S,
		.size = size,
		.records = (uint8_t *)(answer + 1),
	};
	return answer;
}

void pg_answer_free(struct pg_answer *answer)
{
	free(answer);
}

bool pg_answer_next(const struct pg_answer *answer, size_t *offset, struct pg_record *ret_record)
{
	const struct pg_dns_message records = {.data = answer->records, .size = answer->size};

	return *offset < answer->size && pg_record_read(&records, offset, ret_record) == 0;
}

bool pg_answer_is_dangling(const struct pg_answer *answer)
{
	return answer->dangling;
}

/* Reads the target of a CNAME of the chain. */
static int read_target(const struct pg_answer *answer, const struct pg_record *cname,
		       struct pg_dns_name *ret_name)
{
	const struct pg_dns_message records = {.data = answer->records, .size = answer->size};

	return pg_dns_name_read(&records, cname->data, ret_name);
}

/* Whether name is the answer's question or the target of a CNAME of its chain. */
static bool chain_has(const struct pg_answer *answer, const struct pg_dns_name *name)
{
	struct pg_record record;
	struct pg_dns_name target;
	size_t offset = 0;

	if (pg_dns_name_equal(&answer->question, name))
		return true;
	for (unsigned int i = 0; i < answer->chain; i++) {
		if (!pg_answer_next(answer, &offset, &record) ||
		    read_target(answer, &record, &target) < 0)
			return false;
		if (pg_dns_name_equal(&target, name))
			return true;
	}
	return false;
}

/* Sink of pg_answer_targets(): ends the walk at a target that the chain of userdata has. */
static int refuse_known(void *userdata, const struct pg_dns_name *name, uint32_t ttl)
{
	return chain_has(userdata, name) ? -ELOOP : 0;
}

int pg_answer_join(struct pg_answer **answer, const struct pg_answer *more)
{
	struct pg_answer *first = *answer, *joined;
	int r;

	if (first->count != first->chain || first->type != more->type ||
	    !pg_dns_name_equal(&first->target, &more->question))
		return -EINVAL;
	if (first->chain + more->chain > PG_ANSWER_CHAIN_MAX)
		return -ELOOP;
	r = pg_answer_targets(more, refuse_known, first);
	if (r < 0)
		return r;
	joined = pg_answer_new(&first->question, first->type, first->size + more->size);
	if (!joined)
		return -ENOMEM;
	joined->rcode = more->rcode;
	joined->chain = first->chain + more->chain;
	joined->count = first->count + more->count;
	joined->target = more->target;
	joined->ttl = first->ttl < more->ttl ? first->ttl : more->ttl;
	joined->dangling = more->dangling;
	memcpy(joined->records, first->records, first->size);
	memcpy(joined->records + first->size, more->records, more->size);
	pg_answer_free(first);
	*answer = joined;
	return 0;
}

/* Octets of the address in a record of the type; 0 if the type cannot hold it. */
static size_t address_size(const struct pg_addr *addr, uint16_t type)
{
	if (pg_addr_is_v4(addr))
		return type == ns_t_a ? NS_INADDRSZ : 0;
	return type == ns_t_aaaa ? NS_IN6ADDRSZ : 0;
}

struct pg_answer *pg_answer_make(const struct pg_dns_name *question, uint16_t type,
				 const struct pg_addr *addrs, size_t count, uint32_t ttl)
{
	struct pg_dns_writer writer = {.size = 0};
	struct pg_answer *answer;
	size_t size = 0;

	if (ttl > PG_ANSWER_TTL_MAX_S)
		ttl = PG_ANSWER_TTL_MAX_S;
	for (size_t i = 0; i < count; i++) {
		size_t data_size = address_size(&addrs[i], type);

		size += data_size ? question->size + RRFIXEDSZ + data_size : 0;
	}
	answer = pg_answer_new(question, type, size);
	if (!answer)
		return NULL;
	answer->ttl = ttl;
	writer.data = answer->records;
	for (size_t i = 0; i < count; i++) {
		size_t data_size = address_size(&addrs[i], type);
		const uint8_t *bytes = (const uint8_t *)addrs[i].word;

		if (data_size == 0)
			continue;
		pg_record_put_head(&writer, question, type, ttl, (uint16_t)data_size);
		/* An IPv4 address is the end of its mapped form. */
		pg_dns_put(&writer, bytes + NS_IN6ADDRSZ - data_size, data_size);
		answer->count++;
	}
	return answer;
}

static struct pg_addr record_address(const struct pg_answer *answer, const struct pg_record *record)
{
	const uint8_t *data = answer->records + record->data;
	__be32 v4;

	if (record->type == ns_t_aaaa)
		return pg_addr_from_bytes(data);
	memcpy(&v4, data, sizeof(v4));
	return pg_addr_from_v4(v4);
}

int pg_answer_addresses(const struct pg_answer *answer, pg_answer_sink sink, void *userdata)
{
	uint32_t chain_ttl = PG_ANSWER_TTL_MAX_S;
	struct pg_record record;
	size_t offset = 0;

	if (answer->type != ns_t_a && answer->type != ns_t_aaaa)
		return 0;
	for (unsigned int i = 0; pg_answer_next(answer, &offset, &record); i++) {
		uint32_t ttl = record.ttl < chain_ttl ? record.ttl : chain_ttl;
		struct pg_addr addr;
		int r;

		if (i < answer->chain) {
			chain_ttl = ttl;
			continue;
		}
		addr = record_address(answer, &record);
		r = sink(userdata, &addr, ttl);
		if (r < 0)
			return r;
	}
	return 0;
}

int pg_answer_targets(const struct pg_answer *answer, pg_answer_name_sink sink, void *userdata)
{
	uint32_t ttl = PG_ANSWER_TTL_MAX_S;
	struct pg_record record;
	size_t offset = 0;

	for (unsigned int i = 0; i < answer->chain; i++) {
		struct pg_dns_name name;
		int r;

		if (!pg_answer_next(answer, &offset, &record) ||
		    read_target(answer, &record, &name) < 0)
			return -EBADMSG;
		if (record.ttl < ttl)
			ttl = record.ttl;
		r = sink(userdata, &name, ttl);
		if (r < 0)
			return r;
	}
	return 0;
}
