/* SPDX-License-Identifier: Apache-2.0 */
/* Writing JSON text (RFC 8259) without building a document. */
#pragma once

#include <stdio.h>

/* The text as a JSON string, quoted and escaped. Octets above 127 are passed through. */
void pg_json_string(FILE *out, const char *text);
