/* SPDX-License-Identifier: Apache-2.0 */
#include "suggest.h"

#include "base/text.h"

static char to_lower(char c)
{
	return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

const char *pg_suggest_mode(const char *text, const char *const *modes, size_t count)
{
	char plain[16];
	size_t i;

	for (i = 0; i < sizeof(plain) - 1 && text[i]; i++)
		plain[i] = text[i] == '_' || text[i] == ' ' ? '-' : to_lower(text[i]);
	if (text[i])
		return NULL;
	plain[i] = '\0';
	return pg_text_nearest(plain, modes, count);
}

static const char *skip_separators(const char *text)
{
	while (*text == '_' || *text == '-' || *text == ' ' || *text == '.')
		text++;
	return text;
}

static bool same_words(const char *a, const char *b)
{
	for (;; a++, b++) {
		a = skip_separators(a);
		b = skip_separators(b);
		if (to_lower(*a) != to_lower(*b))
			return false;
		if (!*a)
			return true;
	}
}

const char *pg_suggest_key(const char *text, const char *const *keys, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (same_words(text, keys[i]))
			return keys[i];
	return pg_text_nearest(text, keys, count);
}
