/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The DNS wire format (RFC 1035, 4.1) as something that an enemy may have written: integers and
 * names. Nothing is allocated; all time is linear in the size of the message.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

/* Octets of a name on the wire, with the root's (RFC 1035, 2.3.4). */
#define PG_DNS_NAME_MAX	   255
/* Longest text of such a name without final dot, with the NUL. */
#define PG_DNS_TEXT	   254
/* What one message can hold at most: 16 bits of length over TCP. */
#define PG_DNS_MESSAGE_MAX 65535

/* Bits of the header's second 16 (RFC 1035, 4.1.1; RFC 4035, 3). */
#define PG_DNS_QR     0x8000
#define PG_DNS_OPCODE 0x7800
#define PG_DNS_AA     0x0400
#define PG_DNS_TC     0x0200
#define PG_DNS_RD     0x0100
#define PG_DNS_RA     0x0080
#define PG_DNS_AD     0x0020
#define PG_DNS_CD     0x0010

/* Record types that <arpa/nameser.h> of glibc lacks (RFC 9460). */
#define PG_DNS_TYPE_SVCB  64
#define PG_DNS_TYPE_HTTPS 65

/* A name, uncompressed, with the root's octet, in the case in which it was read. */
struct pg_dns_name {
	uint8_t size;
	uint8_t octets[PG_DNS_NAME_MAX];
};

struct pg_dns_message {
	const uint8_t *data;
	size_t size;
};

uint16_t pg_dns_load16(const struct pg_dns_message *message, size_t offset);
uint32_t pg_dns_load32(const struct pg_dns_message *message, size_t offset);

/* Moves *offset behind the name that stands there, without following pointers. -EBADMSG. */
int pg_dns_name_skip(const struct pg_dns_message *message, size_t *offset) PG_MUST_CHECK;

/*
 * Reads the name at offset. A compression pointer must lead backwards, so that no loop can be
 * built. -EBADMSG.
 */
int pg_dns_name_read(const struct pg_dns_message *message, size_t offset,
		     struct pg_dns_name *ret_name) PG_MUST_CHECK;

/* "api.example.com" (one final dot is no matter) -> 3 api 7 example 3 com 0. -EBADMSG. */
int pg_dns_name_from_text(const char *text, struct pg_dns_name *ret_name) PG_MUST_CHECK;

/*
 * The name as text in lower case without final dot; the root is "". -EINVAL if a label has an octet
 * that is not printable ASCII, a dot or a backslash: such a name has no unambiguous text.
 */
int pg_dns_name_to_text(const struct pg_dns_name *name,
			char ret_text[static PG_DNS_TEXT]) PG_MUST_CHECK;

/* Without regard to case (RFC 4343). */
bool pg_dns_name_equal(const struct pg_dns_name *a, const struct pg_dns_name *b);

/*
 * The address that a name under in-addr.arpa or ip6.arpa stands for (RFC 1035, 3.5; RFC 3596, 2.5);
 * text as pg_dns_name_to_text() gives it. false: none.
 */
struct pg_addr;
bool pg_dns_reverse_address(const char *text, struct pg_addr *ret_addr);
