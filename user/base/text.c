/* SPDX-License-Identifier: Apache-2.0 */
#include "text.h"

#include <stdio.h>
#include <string.h>

/* All words that are compared are shorter: field names and modes. */
#define WORD_MAX 32

size_t pg_utf8_decode(const char *text, size_t size, uint32_t *ret_code)
{
	/* Least code point of each length: an overlong form would be a second spelling. */
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	const unsigned char *octets = (const unsigned char *)text;
	size_t length;
	uint32_t code;

	if (size == 0)
		return 0;
	if (octets[0] < 0x80) {
		*ret_code = octets[0];
		return 1;
	}
	if (octets[0] < 0xc2 || octets[0] > 0xf4)
		return 0;
	length = octets[0] < 0xe0 ? 2 : octets[0] < 0xf0 ? 3 : 4;
	if (length > size)
		return 0;
	code = octets[0] & (0x7fU >> length);
	for (size_t i = 1; i < length; i++) {
		if ((octets[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (octets[i] & 0x3fU);
	}
	if (code < least[length] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
		return 0;
	*ret_code = code;
	return length;
}

/* Controls, and the marks that reorder or hide text around them. */
static bool is_printable(uint32_t code)
{
	if (code < 0x20 || (code >= 0x7f && code < 0xa0))
		return false;
	if ((code >= 0x200b && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e))
		return false;
	return !(code >= 0x2060 && code <= 0x206f) && code != 0xfeff;
}

char *pg_text_printable(const char *text, size_t size, size_t max)
{
	/* The longest escape of one octet has six characters; three more for "...". */
	size_t capacity = (size < max ? size : max) * 6 + 16;
	char *result = malloc(capacity);
	size_t used = 0;

	if (!result)
		return NULL;
	for (size_t i = 0; i < size;) {
		uint32_t code = 0;
		size_t length = pg_utf8_decode(text + i, size - i, &code);

		if (i + (length ? length : 1) > max) {
			memcpy(result + used, "...", 3);
			used += 3;
			break;
		}
		if (length && is_printable(code)) {
			memcpy(result + used, text + i, length);
			used += length;
		} else if (size - i >= 2 && memcmp(text + i, PG_TEXT_NUL, 2) == 0) {
			used += (size_t)sprintf(result + used, "\\u0000");
			length = 2;
		} else if (length) {
			used += (size_t)sprintf(result + used, "\\u%04x", code);
		} else {
			used += (size_t)sprintf(result + used, "\\x%02x", (unsigned char)text[i]);
			length = 1;
		}
		i += length;
	}
	result[used] = '\0';
	return result;
}

static unsigned int min3(unsigned int a, unsigned int b, unsigned int c)
{
	unsigned int least = a < b ? a : b;

	return least < c ? least : c;
}

static unsigned int edit_distance(const char *a, size_t a_size, const char *b, size_t b_size)
{
	unsigned int row[WORD_MAX + 1];

	for (unsigned int j = 0; j <= b_size; j++)
		row[j] = j;
	for (size_t i = 1; i <= a_size; i++) {
		unsigned int diagonal = row[0];

		row[0] = (unsigned int)i;
		for (size_t j = 1; j <= b_size; j++) {
			unsigned int above = row[j];

			row[j] = min3(above + 1, row[j - 1] + 1,
				      diagonal + (a[i - 1] == b[j - 1] ? 0 : 1));
			diagonal = above;
		}
	}
	return row[b_size];
}

const char *pg_text_nearest(const char *text, const char *const *words, size_t count)
{
	size_t size = strnlen(text, WORD_MAX + 1);
	unsigned int best = PG_TEXT_NEAR + 1;
	const char *nearest = NULL;

	if (size > WORD_MAX)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		unsigned int distance = edit_distance(text, size, words[i], strlen(words[i]));

		if (distance < best) {
			best = distance;
			nearest = words[i];
		}
	}
	return nearest;
}

bool pg_path_is_within(const char *path, const char *other)
{
	const size_t length = strlen(other);

	if (!strcmp(other, "/"))
		return *path == '/';
	return !strncmp(path, other, length) && (!path[length] || path[length] == '/');
}
