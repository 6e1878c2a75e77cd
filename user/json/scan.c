/* SPDX-License-Identifier: Apache-2.0 */
#include "scan.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/text.h"

#define BYTE_ORDER_MARK "\xef\xbb\xbf"
#define ESCAPED_NUL	"\\u0000"

struct scanner {
	const char *text;
	size_t size, at;
	const struct pg_json_limits *limits;
	char *copy;
	size_t copied;
	size_t depth, values;
	/* The last string, quotes included. */
	size_t string, string_end;
	/* Where a skipped value starts in the text and would in the copy. */
	bool skipping;
	size_t skip_text, skip_copy;
	struct pg_json_scan *scan;
};

static int fault(struct scanner *scanner, enum pg_json_fault code)
{
	scanner->scan->fault = code;
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
	scanner->string = scanner->at;
	take(scanner, 1);
	while (scanner->at < scanner->size) {
		const char *here = scanner->text + scanner->at;
		size_t left = scanner->size - scanner->at, length;
		uint32_t code;

		if (*here == '"') {
			take(scanner, 1);
			scanner->string_end = scanner->at;
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
			return fault(scanner, PG_JSON_SYNTAX);
		take(scanner, length);
	}
	return fault(scanner, PG_JSON_SYNTAX);
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* A colon has just been taken: whether what follows is to be skipped. */
static void maybe_skip(struct scanner *scanner)
{
	const char *name = scanner->limits->skip;
	const size_t length = name ? strlen(name) : 0;

	if (!name || scanner->depth != 1 || scanner->string_end - scanner->string != length + 2 ||
	    memcmp(scanner->text + scanner->string + 1, name, length) != 0)
		return;
	scanner->skipping = true;
	scanner->skip_text = scanner->at;
	scanner->skip_copy = scanner->copied;
}

/* The value has ended. One that is empty is left in the copy, for cJSON to refuse. */
static void end_skipping(struct scanner *scanner)
{
	const char *start = scanner->text + scanner->skip_text;
	const char *end = scanner->text + scanner->at;

	scanner->skipping = false;
	while (start < end && is_space(*start))
		start++;
	while (start < end && is_space(end[-1]))
		end--;
	if (start == end)
		return;
	scanner->copied = scanner->skip_copy;
	scanner->copy[scanner->copied++] = PG_JSON_SKIPPED;
	scanner->scan->skipped = start;
	scanner->scan->skipped_size = (size_t)(end - start);
}

static int enter(struct scanner *scanner)
{
	scanner->depth++;
	if (scanner->skipping)
		return 0;
	scanner->values++;
	return scanner->depth > scanner->limits->depth ? fault(scanner, PG_JSON_TOO_DEEP) : 0;
}

static int scan_structure(struct scanner *scanner)
{
	const char c = scanner->text[scanner->at];
	int result = 0;

	if (scanner->skipping && scanner->depth == 1 && (c == ',' || c == '}'))
		end_skipping(scanner);
	if (c == '{' || c == '[') {
		result = enter(scanner);
	} else if (c == '}' || c == ']') {
		if (scanner->depth == 0)
			return fault(scanner, PG_JSON_SYNTAX);
		scanner->depth--;
	} else if (c == ',') {
		scanner->values += !scanner->skipping;
	} else if ((unsigned char)c < ' ' && !is_space(c)) {
		return fault(scanner, PG_JSON_SYNTAX);
	} else if ((unsigned char)c >= 0x7f) {
		return fault(scanner, PG_JSON_SYNTAX);
	}
	if (result < 0)
		return result;
	if (scanner->values > scanner->limits->values)
		return fault(scanner, PG_JSON_TOO_MANY_VALUES);
	take(scanner, 1);
	if (c == ':' && !scanner->skipping)
		maybe_skip(scanner);
	return 0;
}

static int scan_all(struct scanner *scanner)
{
	int result = 0;

	if (scanner->size > scanner->limits->size)
		return fault(scanner, PG_JSON_TOO_LARGE);
	/* RFC 8259, 8.1 lets parsers ignore it; editors on some systems write it. */
	if (starts_with(scanner, BYTE_ORDER_MARK))
		take(scanner, strlen(BYTE_ORDER_MARK));
	while (result == 0 && scanner->at < scanner->size) {
		if (scanner->text[scanner->at] == '"')
			result = scan_string(scanner);
		else
			result = scan_structure(scanner);
	}
	return result;
}

int pg_json_scan(const char *text, size_t size, const struct pg_json_limits *limits, char *copy,
		 struct pg_json_scan *ret_scan)
{
	struct scanner scanner = {.text = text,
				  .size = size,
				  .limits = limits,
				  .copy = copy,
				  .scan = ret_scan};
	int result;

	*ret_scan = (struct pg_json_scan){0};
	result = scan_all(&scanner);
	ret_scan->position = scanner.at;
	ret_scan->size = scanner.copied;
	if (result == 0)
		copy[scanner.copied] = '\0';
	return result;
}
