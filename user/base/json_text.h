/* SPDX-License-Identifier: Apache-2.0 */
/* Writing JSON text (RFC 8259) without building a document. */
#pragma once

#include <stdio.h>

/*
 * The text as a JSON string, quoted and escaped; NULL becomes null. Octets that are not UTF-8, as
 * file names may have, become U+FFFD.
 */
void pg_json_string(FILE *out, const char *text);
