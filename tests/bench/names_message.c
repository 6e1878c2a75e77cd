/* SPDX-License-Identifier: Apache-2.0 */
/* The few DNS messages that the benchmark needs (RFC 1035, 4.1). */
#include "names.h"

#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <string.h>

#define DIGITS	      8
#define HEADER	      12
#define QUESTION_TAIL 4 /* type and class */
#define ANSWER_SIZE   16
#define FLAG_QR	      0x80 /* in the third octet */
#define FLAG_AA	      0x04
#define FLAG_RA	      0x80 /* in the fourth one */
#define TTL_S	      60

static uint8_t *put_label(uint8_t *at, const char *label)
{
	const size_t size = strlen(label);

	*at = (uint8_t)size;
	memcpy(at + 1, label, size);
	return at + 1 + size;
}

void names_query_make(struct names_query *ret_query, uint16_t id, uint32_t number,
		      const char *below)
{
	/* Recursion is desired; one question. */
	const uint8_t header[HEADER] = {(uint8_t)(id >> 8), (uint8_t)id, 1, 0, 0, 1};
	const uint8_t tail[] = {0, 0, ns_t_a, 0, ns_c_in};
	uint8_t *at = ret_query->octets;
	char digits[DIGITS + 1];

	snprintf(digits, sizeof(digits), "%08x", number);
	memcpy(at, header, sizeof(header));
	at = put_label(at + sizeof(header), digits);
	at = put_label(at, below);
	at = put_label(at, NAMES_PARENT);
	memcpy(at, tail, sizeof(tail));
}

uint32_t names_address(uint32_t number)
{
	return htonl((10U << 24) + number % NAMES_MAX);
}

static uint32_t number_of(const uint8_t *label)
{
	char digits[DIGITS + 1] = "";

	if (*label == DIGITS)
		memcpy(digits, label + 1, DIGITS);
	return (uint32_t)strtoul(digits, NULL, 16);
}

size_t names_answer(uint8_t *message, size_t size, size_t room)
{
	size_t end = HEADER;
	uint8_t *answer;
	uint32_t address;

	while (end < size && message[end])
		end += 1U + message[end];
	end += 1 + QUESTION_TAIL;
	if (end > size || end + ANSWER_SIZE > room || message[2] & FLAG_QR)
		return 0;
	message[2] |= FLAG_QR | FLAG_AA;
	message[3] = FLAG_RA;
	/* One question; what else the query had, such as EDNS, is not answered. */
	memset(message + 6, 0, HEADER - 6);
	if (message[end - 3] != ns_t_a)
		return end;
	message[7] = 1;
	answer = message + end;
	address = names_address(number_of(message + HEADER));
	memcpy(answer,
	       (const uint8_t[]){NS_CMPRSFLGS, HEADER, 0, ns_t_a, 0, ns_c_in, 0, 0, 0, TTL_S, 0,
				 NS_INADDRSZ},
	       ANSWER_SIZE - NS_INADDRSZ);
	memcpy(answer + ANSWER_SIZE - NS_INADDRSZ, &address, sizeof(address));
	return end + ANSWER_SIZE;
}

uint32_t names_read(const uint8_t *message, size_t size, uint16_t *ret_id)
{
	const unsigned int code = size < HEADER ? ns_r_servfail : message[3] & 0xf;
	uint32_t address;

	if (code == ns_r_noerror && message[7] == 1 && size >= NAMES_QUERY_SIZE + ANSWER_SIZE)
		memcpy(&address, message + NAMES_QUERY_SIZE + ANSWER_SIZE - NS_INADDRSZ,
		       sizeof(address));
	else if (code == ns_r_nxdomain)
		address = 0;
	else
		fail("an answer of %zu octets with the code %u is not what was asked for", size,
		     code);
	*ret_id = (uint16_t)(message[0] << 8 | message[1]);
	return address;
}
