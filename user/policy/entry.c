/* SPDX-License-Identifier: Apache-2.0 */
#include "entry.h"

#include <endian.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

#include "hostname.h"

/* The text of an entry without the white space around it; not ended by NUL. */
struct span {
	const char *text;
	size_t size;
};

/* An entry as parsed, before its name has memory of its own. */
struct parsed {
	enum pg_entry_kind kind;
	struct pg_prefix prefix;
	char name[PG_HOSTNAME_MAX + 1];
};

static int parse_span(struct span span, struct parsed *parsed, struct pg_entry_fault *fault);

static struct span span_of(const char *text, size_t size)
{
	return (struct span){.text = text, .size = size};
}

static const char *find(struct span span, char c)
{
	return span.size ? memchr(span.text, c, span.size) : NULL;
}

static struct span before(struct span span, const char *end)
{
	return span_of(span.text, (size_t)(end - span.text));
}

static struct span after(struct span span, const char *start)
{
	return span_of(start, (size_t)(span.text + span.size - start));
}

static bool is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static struct span trim(struct span span)
{
	while (span.size && is_space(span.text[0]))
		span = after(span, span.text + 1);
	while (span.size && is_space(span.text[span.size - 1]))
		span.size--;
	return span;
}

static bool all_in(struct span span, const char *allowed)
{
	for (size_t i = 0; i < span.size; i++) {
		if (!strchr(allowed, span.text[i]) || !span.text[i])
			return false;
	}
	return true;
}

static int fail(struct pg_entry_fault *fault, enum pg_diagnostic_code code)
{
	fault->code = code;
	fault->hint[0] = '\0';
	return -EINVAL;
}

static void format_parsed(const struct parsed *parsed, char text[static PG_HOSTNAME_MAX + 1])
{
	char address[PG_ADDR_TEXT];

	switch (parsed->kind) {
	case PG_ENTRY_HOST:
		snprintf(text, PG_HOSTNAME_MAX + 1, "%s", parsed->name);
		return;
	case PG_ENTRY_WILDCARD:
		snprintf(text, PG_HOSTNAME_MAX + 1, "*.%.251s", parsed->name);
		return;
	case PG_ENTRY_IP4:
	case PG_ENTRY_IP6:
	case PG_ENTRY_CIDR4:
	case PG_ENTRY_CIDR6:
		snprintf(text, PG_HOSTNAME_MAX + 1, "%s",
			 pg_prefix_format(&parsed->prefix, address));
		return;
	}
}

/* Fails with what the candidate means as the hint, if it is an entry in its own right. */
static int fail_suggest(struct pg_entry_fault *fault, enum pg_diagnostic_code code,
			struct span candidate)
{
	struct pg_entry_fault ignored;
	struct parsed parsed;

	fail(fault, code);
	if (parse_span(candidate, &parsed, &ignored) == 0)
		format_parsed(&parsed, fault->hint);
	return -EINVAL;
}

static bool parse_addr(struct span span, struct pg_addr *ret_addr)
{
	char text[PG_ADDR_TEXT];

	if (span.size >= sizeof(text))
		return false;
	memcpy(text, span.text, span.size);
	text[span.size] = '\0';
	return pg_addr_parse(text, ret_addr) == 0;
}

static void set_prefix(struct parsed *parsed, const struct pg_prefix *prefix)
{
	parsed->prefix = *prefix;
	if (pg_prefix_is_exact(prefix))
		parsed->kind = prefix->v4 ? PG_ENTRY_IP4 : PG_ENTRY_IP6;
	else
		parsed->kind = prefix->v4 ? PG_ENTRY_CIDR4 : PG_ENTRY_CIDR6;
}

static bool parse_addr_entry(struct span span, struct parsed *parsed)
{
	struct pg_prefix prefix;
	struct pg_addr addr;

	if (!parse_addr(span, &addr))
		return false;
	prefix = pg_prefix_from_addr(&addr);
	set_prefix(parsed, &prefix);
	return true;
}

/* Decimal without sign or leading zero, at most 128. */
static bool parse_length(struct span span, unsigned int *ret_length)
{
	unsigned int length = 0;

	if (span.size == 0 || span.size > 3 || !all_in(span, "0123456789"))
		return false;
	if (span.size > 1 && span.text[0] == '0')
		return false;
	for (size_t i = 0; i < span.size; i++)
		length = length * 10 + (unsigned int)(span.text[i] - '0');
	*ret_length = length;
	return length <= 128;
}

/* The length that a netmask such as 255.255.255.0 means. */
static bool parse_netmask(struct span span, unsigned int *ret_length)
{
	struct pg_addr addr;
	uint32_t mask;

	if (!parse_addr(span, &addr) || find(span, ':'))
		return false;
	mask = be32toh(pg_addr_to_v4(&addr));
	*ret_length = (unsigned int)__builtin_popcount(mask);
	return mask == (*ret_length ? UINT32_MAX << (32 - *ret_length) : 0);
}

static void hint_prefix(struct pg_entry_fault *fault, struct pg_prefix prefix)
{
	char text[PG_ADDR_TEXT];

	pg_prefix_mask(&prefix);
	snprintf(fault->hint, sizeof(fault->hint), "%s", pg_prefix_format(&prefix, text));
}

/* "ADDR/LENGTH" whose first part is an address. */
static int parse_cidr(struct span address, const struct pg_addr *addr, struct span suffix,
		      struct parsed *parsed, struct pg_entry_fault *fault)
{
	bool mapped = pg_addr_is_v4(addr) && find(address, ':');
	bool v4 = pg_addr_is_v4(addr);
	struct pg_prefix prefix = {.addr = *addr, .v4 = v4};
	unsigned int length;

	if (!parse_length(suffix, &length) || length > (v4 && !mapped ? 32 : 128)) {
		fail(fault, PG_DIAG_CIDR_PREFIX);
		if (v4 && parse_netmask(suffix, &length)) {
			prefix.length = (uint8_t)length;
			hint_prefix(fault, prefix);
		}
		return -EINVAL;
	}
	/* Wider than ::ffff:0:0/96 it would be a range of IPv6 that nobody means: no hint. */
	if (mapped && length < 96)
		return fail(fault, PG_DIAG_CIDR_HOST_BITS);
	prefix.length = (uint8_t)(mapped ? length - 96 : length);
	if (pg_prefix_mask(&prefix)) {
		fail(fault, PG_DIAG_CIDR_HOST_BITS);
		hint_prefix(fault, prefix);
		return -EINVAL;
	}
	set_prefix(parsed, &prefix);
	return 0;
}

/* Text with a slash: a range or a path. */
static int parse_slash(struct span span, const char *slash, struct parsed *parsed,
		       struct pg_entry_fault *fault)
{
	struct span left = before(span, slash), right = after(span, slash + 1);
	char candidate[PG_ADDR_TEXT + 8];
	struct pg_addr addr;
	const char *end;

	if (parse_addr(left, &addr) && (right.size == 0 || strchr("0123456789+-.", *right.text)))
		return parse_cidr(left, &addr, right, parsed, fault);
	if (pg_hostname_ends_in_number(left.text, left.size) && !parse_addr(left, &addr) &&
	    !find(left, ':') && !find(left, '*'))
		return fail(fault, PG_DIAG_AMBIGUOUS_IPV4);
	if (left.size == 0) {
		/* "//host/path" */
		while (right.size && *right.text == '/')
			right = after(right, right.text + 1);
		end = find(right, '/');
		return fail_suggest(fault, PG_DIAG_PATH, end ? before(right, end) : right);
	}
	if (left.text[0] == '[' && left.text[left.size - 1] == ']' && left.size <= PG_ADDR_TEXT) {
		/* "[ADDR6]/LENGTH" */
		snprintf(candidate, sizeof(candidate), "%.*s/%.*s", (int)left.size - 2,
			 left.text + 1, right.size < 4 ? (int)right.size : 4, right.text);
		return fail_suggest(fault, PG_DIAG_BRACKETED_IPV6,
				    span_of(candidate, strlen(candidate)));
	}
	end = find(left, ':');
	if (end && !find(after(left, end + 1), ':'))
		left = before(left, end);
	return fail_suggest(fault, PG_DIAG_PATH, left);
}

/* HOST, HOST:PORT, [ADDR6] or [ADDR6]:PORT -> HOST or ADDR6. */
static struct span without_port(struct span span)
{
	const char *end;

	if (span.size && span.text[0] == '[') {
		end = find(span, ']');
		return end ? before(after(span, span.text + 1), end) : span;
	}
	end = find(span, ':');
	if (end && !find(after(span, end + 1), ':'))
		return before(span, end);
	return span;
}

/* The host of "scheme://user@host:port/path?query#fragment", from after the "//". */
static struct span url_host(struct span span)
{
	size_t size = 0;

	while (size < span.size && !strchr("/?#\\", span.text[size]))
		size++;
	span.size = size;
	for (const char *at = find(span, '@'); at; at = find(span, '@'))
		span = after(span, at + 1);
	return without_port(span);
}

static int parse_bracket(struct span span, struct pg_entry_fault *fault)
{
	const char *end = find(span, ']');
	struct span inner, rest;
	struct pg_addr addr;

	if (!end)
		return fail(fault, PG_DIAG_HOSTNAME_SYNTAX);
	inner = before(after(span, span.text + 1), end);
	rest = after(span, end + 1);
	if (rest.size && rest.text[0] == ':' && all_in(after(rest, rest.text + 1), "0123456789*"))
		return fail_suggest(fault, PG_DIAG_PORT, inner);
	if (rest.size || !find(inner, ':'))
		return fail(fault, PG_DIAG_HOSTNAME_SYNTAX);
	if (!parse_addr(inner, &addr) && find(inner, '%'))
		return fail_suggest(fault, PG_DIAG_ZONE_ID, before(inner, find(inner, '%')));
	return fail_suggest(fault, PG_DIAG_BRACKETED_IPV6, inner);
}

/* Text with a colon: IPv6, a port, or nothing that is known. */
static int parse_colon(struct span span, const char *colon, struct parsed *parsed,
		       struct pg_entry_fault *fault)
{
	const char *percent = find(span, '%');
	struct pg_addr addr;

	if (span.text[0] == '[')
		return parse_bracket(span, fault);
	if (parse_addr_entry(span, parsed))
		return 0;
	if (percent && parse_addr(before(span, percent), &addr))
		return fail_suggest(fault, PG_DIAG_ZONE_ID, before(span, percent));
	if (find(after(span, colon + 1), ':')) {
		struct span rest = after(span, span.text + 1);

		if (span.text[0] == '*' && rest.text[0] == '.' &&
		    parse_addr(after(rest, rest.text + 1), &addr))
			return fail_suggest(fault, PG_DIAG_WILDCARD_ADDRESS,
					    after(rest, rest.text + 1));
		return fail(fault, PG_DIAG_HOSTNAME_SYNTAX);
	}
	if (!all_in(after(span, colon + 1), "0123456789*"))
		return fail(fault, PG_DIAG_HOSTNAME_SYNTAX);
	return fail_suggest(fault, PG_DIAG_PORT, before(span, colon));
}

static struct span without_final_dot(struct span span)
{
	if (span.size && span.text[span.size - 1] == '.')
		span.size--;
	return span;
}

static int parse_wildcard(struct span span, struct parsed *parsed, struct pg_entry_fault *fault)
{
	struct span rest = after(span, span.text + 1);
	char candidate[PG_HOSTNAME_MAX + 3];
	struct pg_addr addr;

	if (span.text[0] != '*' || rest.size < 2 || find(rest, '*'))
		return fail(fault, PG_DIAG_WILDCARD_POSITION);
	if (rest.text[0] != '.') {
		if (rest.size > PG_HOSTNAME_MAX)
			return fail(fault, PG_DIAG_WILDCARD_POSITION);
		snprintf(candidate, sizeof(candidate), "*.%.*s", (int)rest.size, rest.text);
		return fail_suggest(fault, PG_DIAG_WILDCARD_POSITION,
				    span_of(candidate, strlen(candidate)));
	}
	rest = after(rest, rest.text + 1);
	if (parse_addr(rest, &addr))
		return fail_suggest(fault, PG_DIAG_WILDCARD_ADDRESS, rest);
	if (pg_hostname_ends_in_number(rest.text, rest.size))
		return fail_suggest(fault, PG_DIAG_WILDCARD_ADDRESS, without_final_dot(rest));
	rest = without_final_dot(rest);
	fail(fault, PG_DIAG_HOSTNAME_SYNTAX);
	if (pg_hostname_normalise(rest.text, rest.size, strlen("*."), parsed->name, &fault->code) <
	    0)
		return -EINVAL;
	parsed->kind = PG_ENTRY_WILDCARD;
	return 0;
}

static int parse_hostname(struct span span, struct parsed *parsed, struct pg_entry_fault *fault)
{
	struct span name = without_final_dot(span);
	char candidate[PG_HOSTNAME_MAX + 3];

	if (pg_hostname_ends_in_number(span.text, span.size)) {
		if (name.size != span.size)
			return fail_suggest(fault, PG_DIAG_AMBIGUOUS_IPV4, name);
		return fail(fault, PG_DIAG_AMBIGUOUS_IPV4);
	}
	if (span.text[0] == '.' && span.size <= PG_HOSTNAME_MAX) {
		snprintf(candidate, sizeof(candidate), "*%.*s", (int)span.size, span.text);
		return fail_suggest(fault, PG_DIAG_HOSTNAME_SYNTAX,
				    span_of(candidate, strlen(candidate)));
	}
	fail(fault, PG_DIAG_HOSTNAME_SYNTAX);
	if (pg_hostname_normalise(name.text, name.size, 0, parsed->name, &fault->code) < 0)
		return -EINVAL;
	parsed->kind = PG_ENTRY_HOST;
	return 0;
}

/* A name with octets outside ASCII, perhaps behind "*.". */
static int fail_not_ascii(struct span span, struct pg_entry_fault *fault)
{
	bool wildcard = span.size > 2 && memcmp(span.text, "*.", 2) == 0;
	struct span name = without_final_dot(wildcard ? after(span, span.text + 2) : span);
	char ascii[PG_HOSTNAME_MAX + 1], candidate[PG_HOSTNAME_MAX + 3];
	pg_autofree char *text = strndup(name.text, name.size);

	if (!text)
		return -ENOMEM;
	if (!pg_hostname_to_ascii(text, ascii))
		return fail(fault, PG_DIAG_NOT_ASCII);
	snprintf(candidate, sizeof(candidate), "%s%s", wildcard ? "*." : "", ascii);
	return fail_suggest(fault, PG_DIAG_NOT_ASCII, span_of(candidate, strlen(candidate)));
}

static bool has_control(struct span span)
{
	for (size_t i = 0; i < span.size; i++) {
		unsigned char c = (unsigned char)span.text[i];

		/* 0xc0 begins PG_TEXT_NUL and nothing else. */
		if (c < 0x20 || c == 0x7f || c == 0xc0)
			return true;
	}
	return false;
}

static bool is_ascii(struct span span)
{
	for (size_t i = 0; i < span.size; i++) {
		if ((unsigned char)span.text[i] >= 0x80)
			return false;
	}
	return true;
}

/*
 * From the outside in: what a URL puts around a host, then addresses, then names. The order decides
 * which of several faults is named; the first is the one whose hint removes most of the others.
 */
static int parse_span(struct span span, struct parsed *parsed, struct pg_entry_fault *fault)
{
	const char *scheme, *mark;

	if (span.size == 0)
		return fail(fault, PG_DIAG_EMPTY_ENTRY);
	if (has_control(span))
		return fail(fault, PG_DIAG_HOSTNAME_SYNTAX);
	scheme = memmem(span.text, span.size, "://", 3);
	if (scheme)
		return fail_suggest(fault, PG_DIAG_URL, url_host(after(span, scheme + 3)));
	mark = find(span, '@');
	if (mark)
		return fail_suggest(fault, PG_DIAG_USERINFO, url_host(span));
	mark = find(span, '/');
	if (mark)
		return parse_slash(span, mark, parsed, fault);
	if (find(span, '?') || find(span, '#'))
		return fail_suggest(fault, PG_DIAG_PATH, url_host(span));
	mark = find(span, ':');
	if (mark)
		return parse_colon(span, mark, parsed, fault);
	if (!is_ascii(span))
		return fail_not_ascii(span, fault);
	if (find(span, '*'))
		return parse_wildcard(span, parsed, fault);
	if (parse_addr_entry(span, parsed))
		return 0;
	return parse_hostname(span, parsed, fault);
}

int pg_entry_parse(const char *text, struct pg_entry *ret_entry, struct pg_entry_fault *ret_fault)
{
	struct parsed parsed;
	int result = parse_span(trim(span_of(text, strlen(text))), &parsed, ret_fault);
	struct pg_entry entry;

	if (result < 0)
		return result;
	entry.kind = parsed.kind;
	if (parsed.kind == PG_ENTRY_HOST || parsed.kind == PG_ENTRY_WILDCARD) {
		entry.name = strdup(parsed.name);
		if (!entry.name)
			return -ENOMEM;
	} else {
		entry.prefix = parsed.prefix;
	}
	*ret_entry = entry;
	return 0;
}
