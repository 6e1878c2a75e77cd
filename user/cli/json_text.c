/* SPDX-License-Identifier: Apache-2.0 */
#include "json_text.h"

void pg_json_string(FILE *out, const char *text)
{
	fputc('"', out);
	for (const unsigned char *octet = (const unsigned char *)text; *octet; octet++) {
		if (*octet == '"' || *octet == '\\')
			fprintf(out, "\\%c", *octet);
		else if (*octet < 0x20)
			fprintf(out, "\\u%04x", *octet);
		else
			fputc(*octet, out);
	}
	fputc('"', out);
}
