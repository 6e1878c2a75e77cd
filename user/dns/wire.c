/* SPDX-License-Identifier: Apache-2.0 */
#include "wire.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "net/addr.h"

/* Pointers in one name: each leads to a label at least, and no name has more labels. */
#define POINTERS_MAX 127
#define LABEL_MAX    63

#define POINTER 0xc0

static uint8_t lower(uint8_t c)
{
	return c >= 'A' && c <= 'Z' ? (uint8_t)(c - 'A' + 'a') : c;
}

/* Whether an octet of a label stands for itself in text. A space does, as in DNS-SD names. */
static bool is_plain(uint8_t c)
{
	return c >= ' ' && c <= '~' && c != '.' && c != '\\';
}

uint16_t pg_dns_load16(const struct pg_dns_message *message, size_t offset)
{
	return (uint16_t)(message->data[offset] << 8 | message->data[offset + 1]);
}

uint32_t pg_dns_load32(const struct pg_dns_message *message, size_t offset)
{
	return (uint32_t)pg_dns_load16(message, offset) << 16 | pg_dns_load16(message, offset + 2);
}

int pg_dns_name_skip(const struct pg_dns_message *message, size_t *offset)
{
	size_t at = *offset;

	while (at < message->size) {
		uint8_t length = message->data[at];

		if (length == 0) {
			*offset = at + 1;
			return 0;
		}
		if ((length & POINTER) == POINTER) {
			if (at + 2 > message->size)
				return -EBADMSG;
			*offset = at + 2;
			return 0;
		}
		if (length & POINTER)
			return -EBADMSG;
		at += 1U + length;
	}
	return -EBADMSG;
}

/* Appends the label at offset. */
static int append_label(const struct pg_dns_message *message, size_t offset,
			struct pg_dns_name *name)
{
	size_t size = 1U + message->data[offset];

	if (offset + size > message->size || name->size + size > PG_DNS_NAME_MAX)
		return -EBADMSG;
	memcpy(name->octets + name->size, message->data + offset, size);
	name->size = (uint8_t)(name->size + size);
	return 0;
}

int pg_dns_name_read(const struct pg_dns_message *message, size_t offset,
		     struct pg_dns_name *ret_name)
{
	size_t limit = offset;
	unsigned int pointers = 0;

	ret_name->size = 0;
	while (offset < message->size) {
		uint8_t length = message->data[offset];

		if ((length & POINTER) == POINTER) {
			if (offset + 2 > message->size || ++pointers > POINTERS_MAX)
				return -EBADMSG;
			offset = pg_dns_load16(message, offset) & 0x3fff;
			if (offset >= limit)
				return -EBADMSG;
			limit = offset;
			continue;
		}
		if (length & POINTER)
			return -EBADMSG;
		if (append_label(message, offset, ret_name) < 0)
			return -EBADMSG;
		if (length == 0)
			return 0;
		offset += 1U + length;
	}
	return -EBADMSG;
}

int pg_dns_name_from_text(const char *text, struct pg_dns_name *ret_name)
{
	size_t size = 0;

	if (strcmp(text, ".") == 0)
		text = "";
	while (*text) {
		size_t length = strcspn(text, ".");

		if (length == 0 || length > LABEL_MAX || size + length + 2 > PG_DNS_NAME_MAX)
			return -EBADMSG;
		ret_name->octets[size++] = (uint8_t)length;
		for (size_t i = 0; i < length; i++) {
			if (!is_plain((uint8_t)text[i]))
				return -EBADMSG;
			ret_name->octets[size++] = (uint8_t)text[i];
		}
		text += length;
		text += *text == '.';
	}
	ret_name->octets[size++] = 0;
	ret_name->size = (uint8_t)size;
	return 0;
}

int pg_dns_name_to_text(const struct pg_dns_name *name, char ret_text[static PG_DNS_TEXT])
{
	size_t at = 0, used = 0;

	while (name->octets[at]) {
		size_t end = at + 1U + name->octets[at];

		if (used)
			ret_text[used++] = '.';
		for (at++; at < end; at++) {
			if (!is_plain(name->octets[at]))
				return -EINVAL;
			ret_text[used++] = (char)lower(name->octets[at]);
		}
	}
	ret_text[used] = '\0';
	return 0;
}

bool pg_dns_name_equal(const struct pg_dns_name *a, const struct pg_dns_name *b)
{
	if (a->size != b->size)
		return false;
	/* No length of a label is a letter. */
	for (size_t i = 0; i < a->size; i++) {
		if (lower(a->octets[i]) != lower(b->octets[i]))
			return false;
	}
	return true;
}

/* Reads a number of 0 to 255, without leading zeros, and the dot behind it. */
static bool read_octet(const char **text, uint8_t *ret_octet)
{
	const char *at = *text;
	unsigned int value = 0;

	do {
		if (*at < '0' || *at > '9' || (at > *text && value == 0))
			return false;
		value = value * 10 + (unsigned int)(*at - '0');
		if (value > UINT8_MAX)
			return false;
	} while (*++at != '.');
	*text = at + 1;
	*ret_octet = (uint8_t)value;
	return true;
}

/* Reads a hexadecimal digit and the dot behind it. */
static bool read_nibble(const char **text, uint8_t *ret_nibble)
{
	static const char digits[] = "0123456789abcdef";
	const char *digit = **text ? strchr(digits, **text) : NULL;

	if (!digit || (*text)[1] != '.')
		return false;
	*text += 2;
	*ret_nibble = (uint8_t)(digit - digits);
	return true;
}

bool pg_dns_reverse_address(const char *text, struct pg_addr *ret_addr)
{
	uint8_t bytes[16] = {0};
	const char *at = text;
	__be32 v4;
	size_t i;

	for (i = 4; i > 0 && read_octet(&at, &bytes[i - 1]); i--)
		;
	if (i == 0 && strcmp(at, "in-addr.arpa") == 0) {
		memcpy(&v4, bytes, sizeof(v4));
		*ret_addr = pg_addr_from_v4(v4);
		return true;
	}
	at = text;
	for (i = sizeof(bytes); i > 0; i--) {
		uint8_t low, high;

		if (!read_nibble(&at, &low) || !read_nibble(&at, &high))
			return false;
		bytes[i - 1] = (uint8_t)(high << 4 | low);
	}
	if (strcmp(at, "ip6.arpa") != 0)
		return false;
	*ret_addr = pg_addr_from_bytes(bytes);
	return true;
}
