/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Generated sets. No two entries overlap and no two are halves of one range, so that as many
 * elements reach the kernel as were written: each is alone in a block of its own.
 *
 *	10.0.0.0/8          single addresses, one in each block of 32
 *	100.64.0.0/10       ranges of 2 to 8, one in each block of 16
 *	2001:db8:100::/40   ranges /61 to /64, one in each block of 16 x /64
 *	2001:db8:200::/40   single addresses, one in each /64
 *
 * Sets that are too small to have the addresses that the work visits allow them by a range
 * instead, and have their single IPv4 addresses in 172.16.0.0/12.
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

/* The ten of the small set, and the first of the others below BENCH_SETTLED. */
static const char *const small_entries[BENCH_SMALL] = {
	BENCH_TARGET4, "10.0.0.0/8",	   "172.15.0.0/16",  "192.0.2.77",     "203.0.113.128/25",
	"203.0.113.9", "2001:db8:77::/48", "2001:db8:78::1", "2001:db8:79::2", "2001:db8:7a::/64",
};
/* With so many entries the single addresses are those that the work visits. */
#define BENCH_SETTLED (2 * BENCH_SPREAD)

/* As set_entry(), but elsewhere. */
static void medium_entry(size_t i, char ret_text[static BENCH_NAME])
{
	if (i % 4 < 2)
		format4(ret_text, (172U << 24) + (16U << 16) + (uint32_t)i * 32 + 1, 32);
	else
		set_entry(i, ret_text);
}

static void each_medium(size_t count, set_receiver *receive, void *userdata)
{
	const size_t rest = count - BENCH_SMALL;
	char entry[BENCH_NAME];

	for (size_t i = 0; i < rest; i++) {
		medium_entry(i * STRIDE % rest, entry);
		/* What the work needs is in the middle, for whoever looks at one after another. */
		for (size_t k = 0; i == rest / 2 && k < BENCH_SMALL; k++)
			receive(userdata, small_entries[k]);
		receive(userdata, entry);
	}
}

void set_each(size_t count, set_receiver *receive, void *userdata)
{
	char entry[BENCH_NAME];

	if (count > BENCH_SMALL && count < BENCH_SETTLED) {
		each_medium(count, receive, userdata);
		return;
	}
	if (count <= BENCH_SMALL) {
		for (size_t i = 0; i < BENCH_SMALL; i++)
			receive(userdata, small_entries[i]);
		return;
	}
	receive(userdata, BENCH_TARGET4);
	/* All but the last, in place of which the target is there. */
	for (size_t i = 0; i < count; i++) {
		const size_t place = i * STRIDE % count;

		if (place == count - 1)
			continue;
		set_entry(place, entry);
		receive(userdata, entry);
	}
}

/* ---- policy documents */

struct list {
	FILE *out;
	const char *separator;
};

static void add_entry(void *userdata, const char *entry)
{
	struct list *list = userdata;

	fprintf(list->out, "%s\"%s\"", list->separator, entry);
	list->separator = ",";
}

static struct list begin_list(FILE *out, const char *field)
{
	fprintf(out, "\"%s\":{\"network_mode\":\"allowlist\",\"allowed_hosts\":[", field);
	return (struct list){out, ""};
}

static void print_small(FILE *out, const char *field)
{
	struct list list = begin_list(out, field);

	set_each(BENCH_SMALL, add_entry, &list);
	fputs("]}", out);
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
	struct list list;
	char *text;
	size_t size;
	FILE *out = open_document(&text, &size);

	list = begin_list(out, "network_policy");
	set_each(count, add_entry, &list);
	fputs("]},", out);
	print_small(out, "run_network_policy");
	close_document(out);
	return text;
}

char *set_document_of(char **entries, size_t count)
{
	struct list list;
	char *text;
	size_t size;
	FILE *out = open_document(&text, &size);

	list = begin_list(out, "network_policy");
	add_entry(&list, BENCH_TARGET4);
	for (size_t i = 0; i < count; i++)
		add_entry(&list, entries[i]);
	fputs("]}", out);
	close_document(out);
	return text;
}
