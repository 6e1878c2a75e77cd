/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/events.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct pg_events events;

static void set_up(void)
{
	cr_assert_eq(pg_events_init(&events), 0);
}

static void tear_down(void)
{
	pg_events_clear(&events);
}

TestSuite(events, .init = set_up, .fini = tear_down);

static void add(uid_t uid, const char *environment, size_t count)
{
	struct pg_json_writer json;

	for (size_t i = 0; i < count; i++) {
		cr_assert_eq(pg_events_open(&json, "denied", environment), 0);
		pg_events_close(&events, &json, uid, environment);
	}
}

/* How many lines there are for the query, which asks until its end. */
static size_t count(struct pg_events_query query)
{
	size_t lines = 0, size;

	while (pg_events_find(&events, &query)) {
		char *text = NULL;
		FILE *out = open_memstream(&text, &size);

		pg_events_print(&events, &query, out);
		fclose(out);
		/* The last is the cursor. */
		for (const char *end = text; (end = strchr(end, '\n')); end++)
			lines++;
		lines--;
		free(text);
	}
	cr_expect_eq(query.cursor, events.next);
	return lines;
}

static struct pg_events_query query(uid_t uid, const char *environment)
{
	return (struct pg_events_query){.uid = uid, .environment = environment, .owner = (uid_t)-1};
}

Test(events, each_sees_its_own)
{
	add(1, "a", 3);
	add(2, "b", 2);
	add(1, "c", 1);
	cr_expect_eq(count(query(1, NULL)), 4);
	cr_expect_eq(count(query(2, NULL)), 2);
	cr_expect_eq(count(query(3, NULL)), 0);
	cr_expect_eq(count(query(0, NULL)), 6);
	cr_expect_eq(count(query(0, "b")), 2);
	cr_expect_eq(count(query(1, "b")), 0);
}

Test(events, go_on_from_a_cursor)
{
	struct pg_events_query from = query(0, NULL);

	add(1, "a", 10);
	from.cursor = events.next - 3;
	cr_expect_eq(count(from), 3);
	from.cursor = events.next;
	cr_expect(!pg_events_find(&events, &from));
	add(2, "b", 1);
	cr_expect(pg_events_find(&events, &from));
	cr_expect_eq(from.cursor, events.next - 1);
}

/* The oldest make room, and whoever asks for them can tell. */
Test(events, ring)
{
	const uint64_t began = events.next;

	add(0, "a", PG_EVENTS_MAX + 10);
	cr_expect_eq(pg_events_first(&events, &(struct pg_events_query){.uid = 0}), began + 10);
	cr_expect_eq(events.next, began + PG_EVENTS_MAX + 10);
	cr_expect_eq(count(query(0, NULL)), PG_EVENTS_MAX);
}

Test(events, the_busiest_loses)
{
	struct pg_events_query own = query(0, "quiet");
	const uint64_t began = events.next;

	add(1, "quiet", 100);
	add(2, "noisy", 2 * PG_EVENTS_MAX);
	cr_expect_eq(count(query(1, NULL)), 100);
	cr_expect_eq(count(query(2, NULL)), PG_EVENTS_MAX - 100);
	/* Nothing is missing for the one; the other is told, and so is who asks for all. */
	own.owner = 1;
	cr_expect_eq(pg_events_first(&events, &(struct pg_events_query){.uid = 1}), began);
	cr_expect_eq(pg_events_first(&events, &own), began);
	cr_expect_eq(pg_events_first(&events, &(struct pg_events_query){.uid = 2}),
		     events.next - PG_EVENTS_MAX + 100);
	cr_expect_eq(pg_events_first(&events, &(struct pg_events_query){.uid = 0}),
		     events.next - PG_EVENTS_MAX + 100);
	/* Whoever has come last has a share too. */
	add(3, "late", 50);
	cr_expect_eq(count(query(3, NULL)), 50);
	cr_expect_eq(count(query(1, NULL)), 100);
}

Test(events, as_many_owners_as_there_is_room_for)
{
	for (uid_t uid = 1; uid <= PG_EVENTS_MAX + 2; uid++)
		add(uid, "e", 1);
	cr_expect_eq(count(query(0, NULL)), PG_EVENTS_MAX);
	cr_expect_eq(count(query(PG_EVENTS_MAX + 2, NULL)), 1);
	/* Of whom nothing is left may have lost something. */
	cr_expect(pg_events_first(&events, &(struct pg_events_query){.uid = 9999999}) >
		  events.began);
}
