/* SPDX-License-Identifier: Apache-2.0 */
#include "prefix_sort.h"

#include <endian.h>
#include <string.h>

/* Below this many elements comparing is cheaper than counting 256 buckets. */
#define INSERTION_MAX 32

/* The address's 16 octets, then the length: the order of pg_prefix_compare() within a family. */
#define KEY_OCTETS (sizeof(struct pg_addr) + 1)
_Static_assert(offsetof(struct pg_prefix, addr) == 0 &&
		       offsetof(struct pg_prefix, length) == sizeof(struct pg_addr),
	       "the sort key is the start of struct pg_prefix");

static unsigned int octet(const struct pg_prefix *prefix, size_t depth)
{
	return ((const uint8_t *)prefix)[depth];
}

static uint64_t load_be64(const void *octets)
{
	uint64_t value;

	memcpy(&value, octets, sizeof(value));
	return be64toh(value);
}

/* pg_prefix_compare() within a family, without its call of memcmp(): this is the inner loop. */
static bool is_after(const struct pg_prefix *a, const struct pg_prefix *b)
{
	uint64_t x = load_be64(&a->addr.word[0]), y = load_be64(&b->addr.word[0]);

	if (x != y)
		return x > y;
	x = load_be64(&a->addr.word[2]);
	y = load_be64(&b->addr.word[2]);
	return x != y ? x > y : a->length > b->length;
}

static void sort_by_insertion(struct pg_prefix *prefixes, size_t count)
{
	for (size_t i = 1; i < count; i++) {
		struct pg_prefix moving = prefixes[i];
		size_t hole = i;

		for (; hole > 0 && is_after(&prefixes[hole - 1], &moving); hole--)
			prefixes[hole] = prefixes[hole - 1];
		prefixes[hole] = moving;
	}
}

/* Moves every element into the bucket of its octet at depth; ret_end[b] is the end of bucket b. */
static void distribute(struct pg_prefix *prefixes, size_t count, size_t depth, size_t ret_end[256])
{
	size_t size[256] = {0}, next[256], start = 0;

	for (size_t i = 0; i < count; i++)
		size[octet(&prefixes[i], depth)]++;
	for (unsigned int b = 0; b < 256; b++) {
		next[b] = start;
		start += size[b];
		ret_end[b] = start;
	}
	if (size[octet(prefixes, depth)] == count)
		return;
	for (unsigned int b = 0; b < 256; b++) {
		while (next[b] < ret_end[b]) {
			struct pg_prefix *here = &prefixes[next[b]];
			unsigned int home = octet(here, depth);

			if (home != b) {
				struct pg_prefix *there = &prefixes[next[home]];
				struct pg_prefix displaced = *there;

				*there = *here;
				*here = displaced;
			}
			next[home]++;
		}
	}
}

/* Recursion is bounded by KEY_OCTETS. */
static void sort_from(struct pg_prefix *prefixes, size_t count, size_t depth)
{
	size_t end[256], start = 0;

	if (count <= INSERTION_MAX) {
		sort_by_insertion(prefixes, count);
		return;
	}
	distribute(prefixes, count, depth, end);
	if (depth + 1 == KEY_OCTETS)
		return;
	for (unsigned int b = 0; b < 256; b++) {
		if (end[b] - start > 1)
			sort_from(prefixes + start, end[b] - start, depth + 1);
		start = end[b];
	}
}

void pg_prefix_sort(struct pg_prefix *prefixes, size_t count)
{
	/* All IPv4 addresses begin with the same 12 octets. */
	sort_from(prefixes, count, count > 0 && prefixes[0].v4 ? 12 : 0);
}
