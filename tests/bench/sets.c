/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Generated sets. No two entries overlap and no two are halves of one range, so that as many
 * elements reach the kernel as were written: each is alone in a block of its own.
 *
 *	10.0.0.0/8          single addresses, one in each block of 32
 *	100.64.0.0/10       ranges of 2 to 8, one in each block of 16
 *	2001:db8:100::/40   ranges /61 to /64, one in each block of 16 x /64
 *	2001:db8:200::/40   single addresses, one in each /64
 */
#include "bench.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <string.h>

/* A prime, so that neighbours in the list are far apart in the set. */
#define STRIDE 7919

static void format4(char *text, uint32_t address, unsigned int length)
{
	char plain[INET_ADDRSTRLEN];
	const struct in_addr in = {htonl(address)};

	inet_ntop(AF_INET, &in, plain, sizeof(plain));
	snprintf(text, BENCH_NAME, length < 32 ? "%s/%u" : "%s", plain, length);
}

uint32_t set_address4(size_t i)
{
	return (10U << 24) + (uint32_t)i * 32 + (uint32_t)(i * STRIDE % 31) + 1;
}

void set_entry(size_t i, char ret_text[static BENCH_NAME])
{
	const size_t quarter = i / 4, eighth = i / 8;

	if (i % 4 < 2) {
		format4(ret_text, set_address4(quarter * 2 + i % 4), 32);
	} else if (i % 4 == 2) {
		format4(ret_text, (100U << 24) + (64U << 16) + (uint32_t)quarter * 16,
			29 + (unsigned int)(quarter % 3));
	} else if (quarter % 2) {
		snprintf(ret_text, BENCH_NAME, "2001:db8:%zx:%zx::%zx", 0x200 + (eighth >> 16),
			 eighth & 0xffff, eighth * STRIDE % 65521 + 1);
	} else {
		snprintf(ret_text, BENCH_NAME, "2001:db8:%zx:%zx::/%zu",
			 0x100 + (eighth * 16 >> 16), eighth * 16 & 0xffff, 61 + eighth % 4);
	}
}

static void begin_list(FILE *out, const char *field)
{
	fprintf(out, "\"%s\":{\"network_mode\":\"allowlist\",\"allowed_hosts\":[\"%s\"", field,
		BENCH_TARGET4);
}

/* Ten entries, the ranges of all IPv4 addresses of the mixture among them. */
static void print_small(FILE *out, const char *field)
{
	begin_list(out, field);
	fputs(",\"10.0.0.0/8\",\"100.64.0.0/10\",\"192.0.2.77\",\"203.0.113.128/25\","
	      "\"203.0.113.9\",\"2001:db8:77::/48\",\"2001:db8:78::1\",\"2001:db8:79::2\","
	      "\"2001:db8:7a::/64\"]}",
	      out);
}

static FILE *open_document(char **text, size_t *size)
{
	FILE *out = open_memstream(text, size);

	if (!out)
		fail("not enough memory for a policy");
	fputc('{', out);
	return out;
}

static void close_document(FILE *out)
{
	fputc('}', out);
	if (fclose(out))
		fail("not enough memory for a policy");
}

char *set_document(size_t count)
{
	char entry[BENCH_NAME], *text;
	size_t size;
	FILE *out = open_document(&text, &size);

	if (count <= BENCH_SMALL) {
		print_small(out, "network_policy");
	} else {
		begin_list(out, "network_policy");
		/* All but the last, in place of which the target is there. */
		for (size_t i = 0; i < count; i++) {
			const size_t place = i * STRIDE % count;

			if (place == count - 1)
				continue;
			set_entry(place, entry);
			fprintf(out, ",\"%s\"", entry);
		}
		fputs("]}", out);
	}
	fputc(',', out);
	print_small(out, "run_network_policy");
	close_document(out);
	return text;
}

char *set_document_of(char **entries, size_t count)
{
	char *text;
	size_t size;
	FILE *out = open_document(&text, &size);

	begin_list(out, "network_policy");
	for (size_t i = 0; i < count; i++)
		fprintf(out, ",\"%s\"", entries[i]);
	fputs("]}", out);
	close_document(out);
	return text;
}
