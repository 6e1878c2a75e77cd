/* SPDX-License-Identifier: Apache-2.0 */
/* Reading what a client asks (RFC 1035, RFC 6891). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire.h"

struct pg_dns_query {
	uint16_t id;
	uint16_t flags; /* the header's second 16 bits as sent */
	bool has_question;
	struct pg_dns_name name; /* in the client's case */
	char text[PG_DNS_TEXT];	 /* lower case; "" if the name is the root or has no text */
	bool has_text;		 /* the root has one */
	uint16_t type, class;
	bool edns;	   /* there was an OPT record */
	uint16_t udp_size; /* of a UDP answer; at least 512 */
};

/* What to do with the message. All but OK and DROP are answered with that code. */
enum pg_dns_parsed {
	PG_DNS_PARSED_OK,
	PG_DNS_PARSED_DROP,    /* no query, or too short to be answered */
	PG_DNS_PARSED_FORMERR, /* QD != 1, records where none belong, compression, two OPT, ... */
	PG_DNS_PARSED_NOTIMP,  /* an opcode other than QUERY */
	PG_DNS_PARSED_BADVERS, /* EDNS of another version than 0 */
};

/* *ret_query has .id and .flags unless DROP, and the question if .has_question. */
enum pg_dns_parsed pg_dns_query_parse(const uint8_t *message, size_t size,
				      struct pg_dns_query *ret_query) PG_MUST_CHECK;
