/* SPDX-License-Identifier: Apache-2.0 */
#include "query.h"

#include <arpa/nameser.h>

/* Octets of an option's code and length in an OPT record (RFC 6891, 6.1.2). */
#define OPTION_HEAD 4

/* Reads the question and moves behind it. false: there is none that could be echoed. */
static bool read_question(const struct pg_dns_message *message, size_t *offset,
			  struct pg_dns_query *query)
{
	size_t at = *offset;

	if (pg_dns_name_skip(message, &at) < 0 || at + QFIXEDSZ > message->size ||
	    pg_dns_name_read(message, *offset, &query->name) < 0)
		return false;
	/* Nothing stands before the question that a pointer could lead to. */
	if (at - *offset != query->name.size)
		return false;
	query->type = pg_dns_load16(message, at);
	query->class = pg_dns_load16(message, at + 2);
	query->has_question = true;
	query->has_text = pg_dns_name_to_text(&query->name, query->text) == 0;
	if (!query->has_text)
		query->text[0] = '\0';
	*offset = at + QFIXEDSZ;
	return true;
}

/* Whether options fill the data from offset to end. */
static bool options_fit(const struct pg_dns_message *message, size_t offset, size_t end)
{
	while (end - offset >= OPTION_HEAD) {
		size_t size = OPTION_HEAD + pg_dns_load16(message, offset + 2);

		if (size > end - offset)
			return false;
		offset += size;
	}
	return offset == end;
}

/* Reads the OPT record, the only one that may follow the question. */
static enum pg_dns_parsed read_opt(const struct pg_dns_message *message, size_t *offset,
				   struct pg_dns_query *query)
{
	const size_t head = *offset + 1;
	size_t data, end;
	uint16_t udp_size;

	if (head + RRFIXEDSZ > message->size || message->data[*offset] != 0 ||
	    pg_dns_load16(message, head) != ns_t_opt)
		return PG_DNS_PARSED_FORMERR;
	data = head + RRFIXEDSZ;
	end = data + pg_dns_load16(message, head + 8);
	if (end > message->size)
		return PG_DNS_PARSED_FORMERR;
	udp_size = pg_dns_load16(message, head + 2);
	query->edns = true;
	if (udp_size > query->udp_size)
		query->udp_size = udp_size;
	*offset = end;
	/* The second octet of what is a TTL elsewhere; what another version has as data is unknown.
	 */
	if (message->data[head + 5] != 0)
		return PG_DNS_PARSED_BADVERS;
	return options_fit(message, data, end) ? PG_DNS_PARSED_OK : PG_DNS_PARSED_FORMERR;
}

enum pg_dns_parsed pg_dns_query_parse(const uint8_t *message, size_t size,
				      struct pg_dns_query *ret_query)
{
	const struct pg_dns_message parsed = {.data = message, .size = size};
	enum pg_dns_parsed result = PG_DNS_PARSED_OK;
	size_t offset = HFIXEDSZ;
	unsigned int additional;

	if (size < HFIXEDSZ || pg_dns_load16(&parsed, 2) & PG_DNS_QR)
		return PG_DNS_PARSED_DROP;
	*ret_query = (struct pg_dns_query){
		.id = pg_dns_load16(&parsed, 0),
		.flags = pg_dns_load16(&parsed, 2),
		.udp_size = NS_PACKETSZ,
	};
	if (ret_query->flags & PG_DNS_OPCODE)
		return PG_DNS_PARSED_NOTIMP;
	if (pg_dns_load16(&parsed, 4) != 1 || !read_question(&parsed, &offset, ret_query))
		return PG_DNS_PARSED_FORMERR;
	additional = pg_dns_load16(&parsed, 10);
	if (pg_dns_load16(&parsed, 6) || pg_dns_load16(&parsed, 8) || additional > 1)
		return PG_DNS_PARSED_FORMERR;
	if (additional)
		result = read_opt(&parsed, &offset, ret_query);
	return offset == size ? result : PG_DNS_PARSED_FORMERR;
}
