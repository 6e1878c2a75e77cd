/* SPDX-License-Identifier: Apache-2.0 */
#include "json_text.h"

#include <stdint.h>
#include <string.h>

#include "text.h"

void pg_json_string(FILE *out, const char *text)
{
	const size_t size = text ? strlen(text) : 0;

	if (!text) {
		fputs("null", out);
		return;
	}
	putc('"', out);
	for (size_t i = 0; i < size;) {
		uint32_t code = 0;
		const size_t length = pg_utf8_decode(text + i, size - i, &code);

		if (length == 0)
			fputs("\\ufffd", out);
		else if (code == '"' || code == '\\')
			fprintf(out, "\\%c", (char)code);
		else if (code < 0x20 || code == 0x7f)
			fprintf(out, "\\u%04x", code);
		else
			fwrite(text + i, 1, length, out);
		i += length ? length : 1;
	}
	putc('"', out);
}
