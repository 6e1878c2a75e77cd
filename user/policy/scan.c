/* SPDX-License-Identifier: Apache-2.0 */
#include "scan.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/text.h"

#include "policy.h"

#define BYTE_ORDER_MARK "\xef\xbb\xbf"
#define ESCAPED_NUL	"\\u0000"

struct scanner {
	const char *text;
	size_t size, at;
	char *copy;
	size_t copied;
	size_t depth, values;
	enum pg_diagnostic_code code;
};

static int fault(struct scanner *scanner, enum pg_diagnostic_code code)
{
	scanner->code = code;
	return -EINVAL;
}

static bool starts_with(const struct scanner *scanner, const char *token)
{
	size_t length = strlen(token);

	return scanner->size - scanner->at >= length &&
	       memcmp(scanner->text + scanner->at, token, length) == 0;
}

static void take(struct scanner *scanner, size_t length)
{
	memcpy(scanner->copy + scanner->copied, scanner->text + scanner->at, length);
	scanner->copied += length;
	scanner->at += length;
}

/* From the opening quote to after the closing one. */
static int scan_string(struct scanner *scanner)
{
	take(scanner, 1);
	while (scanner->at < scanner->size) {
		const char *here = scanner->text + scanner->at;
		size_t left = scanner->size - scanner->at, length;
		uint32_t code;

		if (*here == '"') {
			take(scanner, 1);
			return 0;
		}
		if (starts_with(scanner, ESCAPED_NUL)) {
			memcpy(scanner->copy + scanner->copied, PG_TEXT_NUL, 2);
			scanner->copied += 2;
			scanner->at += strlen(ESCAPED_NUL);
			continue;
		}
		if (*here == '\\') {
			/* What may follow is cJSON's to check; it must only not end the string. */
			if (left < 2)
				break;
			take(scanner, 1);
			here++;
			left--;
		}
		length = pg_utf8_decode(here, left, &code);
		if (length == 0 || code < 0x20)
			return fault(scanner, PG_DIAG_JSON_SYNTAX);
		take(scanner, length);
	}
	return fault(scanner, PG_DIAG_JSON_SYNTAX);
}

static int scan_structure(struct scanner *scanner)
{
	char c = scanner->text[scanner->at];

	if (c == '{' || c == '[') {
		if (++scanner->depth > PG_POLICY_DEPTH_MAX)
			return fault(scanner, PG_DIAG_DOCUMENT_TOO_DEEP);
		scanner->values++;
	} else if (c == '}' || c == ']') {
		if (scanner->depth == 0)
			return fault(scanner, PG_DIAG_JSON_SYNTAX);
		scanner->depth--;
	} else if (c == ',') {
		scanner->values++;
	} else if ((unsigned char)c < ' ' && c != '\t' && c != '\n' && c != '\r') {
		return fault(scanner, PG_DIAG_JSON_SYNTAX);
	} else if ((unsigned char)c >= 0x7f) {
		return fault(scanner, PG_DIAG_JSON_SYNTAX);
	}
	if (scanner->values > PG_POLICY_VALUES_MAX)
		return fault(scanner, PG_DIAG_TOO_MANY_ENTRIES);
	take(scanner, 1);
	return 0;
}

int pg_scan(const char *text, size_t size, char *copy, size_t *ret_size,
	    enum pg_diagnostic_code *ret_code, size_t *ret_position)
{
	struct scanner scanner = {.text = text, .size = size, .copy = copy};
	int result;

	/* RFC 8259, 8.1 lets parsers ignore it; editors on some systems write it. */
	if (starts_with(&scanner, BYTE_ORDER_MARK))
		take(&scanner, strlen(BYTE_ORDER_MARK));
	while (scanner.at < size) {
		if (text[scanner.at] == '"')
			result = scan_string(&scanner);
		else
			result = scan_structure(&scanner);
		if (result < 0) {
			*ret_code = scanner.code;
			*ret_position = scanner.at;
			return result;
		}
	}
	copy[scanner.copied] = '\0';
	*ret_size = scanner.copied;
	return 0;
}
