/* SPDX-License-Identifier: Apache-2.0 */
#include "answer.h"

#include <arpa/nameser.h>
#include <errno.h>
#include <limits.h>

#include "record.h"

/*
 * CNAME records looked at in one response. A chain of PG_ANSWER_CHAIN_MAX with others between its
 * links fits; a message full of them would be searched for each link.
 */
#define CNAMES_MAX 64

#define RCODE 0x000f

/* What the name of most records is: a pointer to the question behind the header. */
#define QUESTION_POINTER (0xc000 | HFIXEDSZ)

struct response {
	struct pg_dns_message message;
	uint16_t type;
	uint8_t rcode;
	size_t answers, authorities; /* where the sections begin */
	unsigned int answer_count, authority_count;
	struct pg_record cnames[CNAMES_MAX];
	unsigned int cname_count;
	/* The question's name, then the targets of the chain. */
	struct pg_dns_name names[PG_ANSWER_CHAIN_MAX + 1];
	uint32_t ttls[PG_ANSWER_CHAIN_MAX];
	unsigned int chain;
};

/* Checks the header, and that the one question is ours. */
static int read_question(struct response *response)
{
	const struct pg_dns_message *message = &response->message;
	struct pg_dns_name asked;
	size_t offset = HFIXEDSZ;
	uint16_t flags;

	if (message->size < HFIXEDSZ)
		return -EBADMSG;
	flags = pg_dns_load16(message, 2);
	/* What is left out of a truncated response must not count as absent. */
	if ((flags & (PG_DNS_QR | PG_DNS_OPCODE | PG_DNS_TC)) != PG_DNS_QR)
		return -EBADMSG;
	if (pg_dns_load16(message, 4) != 1)
		return -EBADMSG;
	if (pg_dns_name_read(message, offset, &asked) < 0 ||
	    pg_dns_name_skip(message, &offset) < 0 || offset + QFIXEDSZ > message->size)
		return -EBADMSG;
	if (!pg_dns_name_equal(&asked, &response->names[0]) ||
	    pg_dns_load16(message, offset) != response->type ||
	    pg_dns_load16(message, offset + 2) != ns_c_in)
		return -EBADMSG;
	response->rcode = flags & RCODE;
	if (response->rcode != ns_r_noerror && response->rcode != ns_r_nxdomain)
		return -EPROTO;
	response->answers = offset + QFIXEDSZ;
	response->answer_count = pg_dns_load16(message, 6);
	response->authority_count = pg_dns_load16(message, 8);
	return 0;
}

/* Walks the answer section: proves it well-formed and notes the CNAME records. */
static int read_answers(struct response *response)
{
	size_t offset = response->answers;

	for (unsigned int i = 0; i < response->answer_count; i++) {
		struct pg_record record;

		if (pg_record_read(&response->message, &offset, &record) < 0)
			return -EBADMSG;
		/* Who asks for a CNAME wants to see it, not where it leads. */
		if (record.type != ns_t_cname || record.class != ns_c_in ||
		    response->type == ns_t_cname)
			continue;
		if (response->cname_count == CNAMES_MAX)
			return -ELOOP;
		response->cnames[response->cname_count++] = record;
	}
	response->authorities = offset;
	return 0;
}

/* Whether the record belongs to the name at which the chain has arrived. */
static int is_next(const struct response *response, const struct pg_record *record)
{
	const struct pg_dns_message *message = &response->message;
	const struct pg_dns_name *name = &response->names[response->chain];
	struct pg_dns_name owner;

	if (response->chain == 0 && pg_dns_load16(message, record->owner) == QUESTION_POINTER)
		return true;
	if (pg_dns_name_read(message, record->owner, &owner) < 0)
		return -EBADMSG;
	return pg_dns_name_equal(&owner, name);
}

/* Reads the target of the CNAME, which must fill its data, and appends it to the chain. */
static int append_target(struct response *response, const struct pg_record *cname)
{
	struct pg_dns_writer counter = {.data = NULL};
	struct pg_dns_name *target = &response->names[response->chain + 1];

	if (pg_record_copy_data(&response->message, cname, &counter) < 0 ||
	    pg_dns_name_read(&response->message, cname->data, target) < 0)
		return -EBADMSG;
	for (unsigned int i = 0; i <= response->chain; i++) {
		if (pg_dns_name_equal(&response->names[i], target))
			return -ELOOP;
	}
	response->ttls[response->chain++] = cname->ttl;
	return 0;
}

/* Follows one CNAME. Returns 1, or 0 if the chain has ended. Of several the first counts. */
static int follow_cname(struct response *response)
{
	for (unsigned int i = 0; i < response->cname_count; i++) {
		int r = is_next(response, &response->cnames[i]);

		if (r < 0)
			return r;
		if (r == 0)
			continue;
		if (response->chain == PG_ANSWER_CHAIN_MAX)
			return -ELOOP;
		r = append_target(response, &response->cnames[i]);
		return r < 0 ? r : 1;
	}
	return 0;
}

/* Writes or counts the chain. */
static void write_chain(const struct response *response, struct pg_dns_writer *writer)
{
	for (unsigned int i = 0; i < response->chain; i++) {
		const struct pg_dns_name *target = &response->names[i + 1];

		pg_record_put_head(writer, &response->names[i], ns_t_cname, response->ttls[i],
				   target->size);
		pg_dns_put_name(writer, target);
	}
}

static int most_records(const struct response *response)
{
	return response->type == ns_t_a || response->type == ns_t_aaaa ? PG_ANSWER_ADDRESSES_MAX
								       : INT_MAX;
}

/*
 * Writes or counts the records at the end of the chain; lowers *ttl to the smallest of theirs.
 * Returns how many there are.
 */
static int write_records(const struct response *response, struct pg_dns_writer *writer,
			 uint32_t *ttl)
{
	const struct pg_dns_name *owner = &response->names[response->chain];
	size_t offset = response->answers;
	int count = 0;

	/* What was never data (RFC 6895, 3.1) has no place in an answer. */
	if (response->type == ns_t_opt)
		return 0;
	for (unsigned int i = 0; i < response->answer_count && count < most_records(response);
	     i++) {
		struct pg_record record;
		size_t data;
		int r;

		if (pg_record_read(&response->message, &offset, &record) < 0)
			return -EBADMSG;
		if (record.type != response->type || record.class != ns_c_in)
			continue;
		r = is_next(response, &record);
		if (r < 0)
			return r;
		if (r == 0)
			continue;
		pg_record_put_head(writer, owner, record.type, record.ttl, 0);
		data = writer->size;
		r = pg_record_copy_data(&response->message, &record, writer);
		if (r < 0)
			return r;
		if (writer->size > PG_ANSWER_RECORDS_MAX)
			return -EBADMSG;
		pg_dns_set16(writer, data - 2, (uint16_t)(writer->size - data));
		if (record.ttl < *ttl)
			*ttl = record.ttl;
		count++;
	}
	return count;
}

static bool is_at_or_below(const struct pg_dns_name *name, const struct pg_dns_name *ancestor)
{
	for (size_t at = 0; at < name->size; at += 1U + name->octets[at]) {
		struct pg_dns_name rest = {.size = (uint8_t)(name->size - at)};

		if (rest.size > ancestor->size)
			continue;
		memcpy(rest.octets, name->octets + at, rest.size);
		return pg_dns_name_equal(&rest, ancestor);
	}
	return false;
}

/*
 * How long the end of the chain may count as absent (RFC 2308, 5), from the SOA record of a zone
 * that it is in. Returns 1, or 0 if there is none.
 */
static int absence_ttl(const struct response *response, uint32_t *ret_ttl)
{
	const struct pg_dns_message *message = &response->message;
	size_t offset = response->authorities;

	for (unsigned int i = 0; i < response->authority_count; i++) {
		struct pg_dns_writer counter = {.data = NULL};
		struct pg_record record;
		struct pg_dns_name zone;
		uint32_t minimum;

		if (pg_record_read(message, &offset, &record) < 0)
			return -EBADMSG;
		if (record.type != ns_t_soa || record.class != ns_c_in)
			continue;
		if (pg_dns_name_read(message, record.owner, &zone) < 0 ||
		    pg_record_copy_data(message, &record, &counter) < 0)
			return -EBADMSG;
		if (!is_at_or_below(&response->names[response->chain], &zone))
			continue;
		minimum = pg_dns_load32(message, record.data + record.data_size - 4);
		if (record.ttl < minimum)
			minimum = record.ttl;
		*ret_ttl = minimum < PG_ANSWER_NEGATIVE_MAX_S ? minimum : PG_ANSWER_NEGATIVE_MAX_S;
		return 1;
	}
	return 0;
}

/* Sets the TTL of an answer without records at its end, and whether that is all to be known. */
static int read_absence(const struct response *response, struct pg_answer *answer)
{
	uint32_t ttl = PG_ANSWER_NEGATIVE_S;
	int r = absence_ttl(response, &ttl);

	if (r < 0)
		return r;
	/* Servers that do not know the target leave it out; the others say that they do. */
	answer->dangling = r == 0 && response->chain > 0 && response->rcode == ns_r_noerror;
	if (!answer->dangling && ttl < answer->ttl)
		answer->ttl = ttl;
	return 0;
}

/* Makes the answer of a response that was read. */
static int make_answer(const struct response *response, struct pg_answer **ret_answer)
{
	PG_CLEANUP(pg_answer_freep) struct pg_answer *answer = NULL;
	struct pg_dns_writer writer = {.data = NULL};
	uint32_t ttl = PG_ANSWER_TTL_MAX_S;
	int count, r;

	write_chain(response, &writer);
	count = write_records(response, &writer, &ttl);
	if (count < 0)
		return count;
	if (count > 0 && response->rcode != ns_r_noerror)
		return -EBADMSG;
	answer = pg_answer_new(&response->names[0], response->type, writer.size);
	if (!answer)
		return -ENOMEM;
	for (unsigned int i = 0; i < response->chain; i++)
		ttl = response->ttls[i] < ttl ? response->ttls[i] : ttl;
	answer->rcode = response->rcode;
	answer->chain = response->chain;
	answer->count = response->chain + (unsigned int)count;
	answer->target = response->names[response->chain];
	answer->ttl = ttl;
	writer = (struct pg_dns_writer){.data = answer->records};
	write_chain(response, &writer);
	r = count ? write_records(response, &writer, &ttl) : read_absence(response, answer);
	if (r < 0)
		return r;
	*ret_answer = PG_TAKE_PTR(answer);
	return 0;
}

int pg_answer_read(const uint8_t *message, size_t size, const struct pg_dns_name *question,
		   uint16_t type, struct pg_answer **ret_answer)
{
	struct response response;
	int r;

	/* Not zeroed: most of it is room for chains that are rare. */
	response.message = (struct pg_dns_message){.data = message, .size = size};
	response.type = type;
	response.names[0] = *question;
	response.cname_count = 0;
	response.chain = 0;
	r = read_question(&response);
	if (r < 0)
		return r;
	r = read_answers(&response);
	if (r < 0)
		return r;
	do {
		r = follow_cname(&response);
		if (r < 0)
			return r;
	} while (r > 0);
	return make_answer(&response, ret_answer);
}
