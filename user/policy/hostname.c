/* SPDX-License-Identifier: Apache-2.0 */
#include "hostname.h"

#include <errno.h>
#include <idn2.h>
#include <string.h>

/* A UTF-8 name longer than this has no xn-- form of 253 characters. */
#define UNICODE_NAME_MAX (4 * PG_HOSTNAME_MAX)

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static char to_lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_label_syntax(const char *label, size_t size)
{
	if (size == 0 || label[0] == '-' || label[size - 1] == '-')
		return false;
	for (size_t i = 0; i < size; i++) {
		char c = to_lower(label[i]);

		if (!is_digit(c) && !(c >= 'a' && c <= 'z') && c != '-')
			return false;
	}
	return true;
}

int pg_hostname_normalise(const char *text, size_t size, size_t reserve,
			  char ret_name[static PG_HOSTNAME_MAX + 1],
			  enum pg_diagnostic_code *ret_code)
{
	size_t longest = 0;

	for (size_t start = 0; start <= size;) {
		const char *dot = memchr(text + start, '.', size - start);
		size_t length = dot ? (size_t)(dot - text) - start : size - start;

		if (!is_label_syntax(text + start, length)) {
			*ret_code = PG_DIAG_HOSTNAME_SYNTAX;
			return -EINVAL;
		}
		if (length > longest)
			longest = length;
		start += length + 1;
	}
	if (longest > PG_LABEL_MAX) {
		*ret_code = PG_DIAG_LABEL_TOO_LONG;
		return -EINVAL;
	}
	if (size + reserve > PG_HOSTNAME_MAX) {
		*ret_code = PG_DIAG_NAME_TOO_LONG;
		return -EINVAL;
	}
	for (size_t i = 0; i < size; i++)
		ret_name[i] = to_lower(text[i]);
	ret_name[size] = '\0';
	return 0;
}

bool pg_hostname_ends_in_number(const char *text, size_t size)
{
	size_t start;
	bool hex;

	if (size > 0 && text[size - 1] == '.')
		size--;
	start = size;
	while (start > 0 && text[start - 1] != '.')
		start--;
	if (start == size)
		return false;
	hex = size - start >= 2 && text[start] == '0' && to_lower(text[start + 1]) == 'x';
	for (size_t i = hex ? start + 2 : start; i < size; i++) {
		char c = to_lower(text[i]);

		if (!is_digit(c) && !(hex && c >= 'a' && c <= 'f'))
			return false;
	}
	return true;
}

bool pg_hostname_to_ascii(const char *text, char ret_name[static PG_HOSTNAME_MAX + 1])
{
	char *strict = NULL, *mapped = NULL;
	bool sure = false;

	if (strlen(text) > UNICODE_NAME_MAX)
		return false;
	/* Strict: anything that would have to be mapped (capitals, wide forms) is an error. */
	if (idn2_to_ascii_8z(text, &strict, IDN2_NO_TR46) == IDN2_OK &&
	    /* Sharp s, final sigma and the joiners have two readings; neither is sure. */
	    idn2_to_ascii_8z(text, &mapped, IDN2_TRANSITIONAL) == IDN2_OK &&
	    strcmp(strict, mapped) == 0 && strlen(strict) <= PG_HOSTNAME_MAX) {
		memcpy(ret_name, strict, strlen(strict) + 1);
		sure = true;
	}
	idn2_free(strict);
	idn2_free(mapped);
	return sure;
}
