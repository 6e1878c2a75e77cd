/* SPDX-License-Identifier: Apache-2.0 */
/* Hostnames: syntax, normal form, the xn-- form of others. Private to this folder. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "entry.h"

/*
 * Checks a name without its final dot and writes it in lower case. reserve octets are kept free
 * for what a wildcard puts in front. Returns 0, or -EINVAL and the code.
 */
int pg_hostname_normalise(const char *text, size_t size, size_t reserve,
			  char ret_name[static PG_HOSTNAME_MAX + 1],
			  enum pg_diagnostic_code *ret_code) PG_MUST_CHECK;

/*
 * Whether the last label is a number as the WHATWG URL standard and inet_aton(3) know it: decimal
 * or 0x. Such text is an IPv4 address to some programs and never a name.
 */
bool pg_hostname_ends_in_number(const char *text, size_t size);

/*
 * The xn-- form of a name that needs no mapping to have one: every label already in the form that
 * IDNA2008 stores, and no character that IDNA2003 reads differently. Else false.
 */
bool pg_hostname_to_ascii(const char *text, char ret_name[static PG_HOSTNAME_MAX + 1]);
