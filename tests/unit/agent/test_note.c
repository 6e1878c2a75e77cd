/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "agent/events.h"
#include "agent/managed.h"

static void check_round_trip(const struct pg_note *note)
{
	pg_autofree char *text = NULL, *again = NULL;
	pg_autonote struct pg_note read = {0};
	struct pg_error err = {};

	cr_assert_eq(pg_note_print(note, &text), 0);
	cr_assert_eq(pg_note_parse(text, &read, &err), 0, "%s: %s", text, err.text);
	cr_assert_eq(pg_note_print(&read, &again), 0);
	cr_expect_str_eq(text, again);
	cr_expect_eq(read.digest, note->digest);
	cr_expect_eq(read.run_since, note->run_since);
	cr_expect_eq(read.lease.deadline, note->lease.deadline);
}

Test(note, round_trip)
{
	char members[] = "\"kind\":\"pid\",\"pid\":1\n", warnings[] = "{\"code\":\"x\"}";
	struct pg_note note = {.digest = UINT64_MAX,
			       .verifier = PG_VERIFIER_NEW,
			       .members = members,
			       .warnings = warnings,
			       .run_since = 9007199254740993,
			       .frozen = true};

	check_round_trip(&note);
	note.lease = (struct pg_lease){true, PG_PHASE_RUN, PG_LEASE_DENY, UINT64_MAX - 1};
	check_round_trip(&note);
	note.lease.then = PG_PHASE_VERIFIER;
	check_round_trip(&note);
}

Test(note, faults)
{
	static const char *const texts[] = {
		"",
		"{}",
		"{\"digest\":\"1\",\"verifier\":\"x\",\"members\":\"\",\"warnings\":\"\"}",
		"{\"digest\":\"1\",\"verifier\":\"same\",\"members\":\"\",\"warnings\":\"\","
		"\"lease_phase\":\"x\"}",
		"{\"digest\":\"1\",\"verifier\":\"same\",\"members\":\"\",\"warnings\":\"\","
		"\"of_a_later_version\":1}",
	};

	for (size_t i = 0; i < PG_ARRAY_SIZE(texts); i++) {
		struct pg_note note = {0};
		struct pg_error err = {};

		cr_expect_eq(pg_note_parse(texts[i], &note, &err), -EINVAL, "%s", texts[i]);
	}
}

static void add(struct pg_events *events, uid_t owner, const char *environment)
{
	struct pg_json_writer json;

	cr_assert_eq(pg_events_open(&json, "denied", environment), 0);
	pg_events_close(events, &json, owner, environment);
}

static char *print(const struct pg_events *events, struct pg_events_query query)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	pg_events_print(events, &query, out);
	fclose(out);
	return text;
}

static size_t count_lines(const char *text)
{
	size_t count = 0;

	for (; *text; text++)
		count += *text == '\n';
	return count;
}

Test(events, are_for_their_owner)
{
	struct pg_events events;
	struct pg_events_query all = {0}, of_one, of_a;

	cr_assert_eq(pg_events_init(&events), 0);
	add(&events, 1, "a");
	add(&events, 2, "b");
	all.cursor = events.first;
	of_one = (struct pg_events_query){.cursor = events.first, .uid = 1};
	of_a = (struct pg_events_query){.cursor = events.first, .environment = "b"};
	for (size_t i = 0; i < 3; i++) {
		const struct pg_events_query queries[] = {all, of_one, of_a};
		pg_autofree char *text = print(&events, queries[i]);

		cr_expect_eq(count_lines(text), i == 0 ? 3 : 2, "%s", text);
		cr_expect_eq(!strstr(text, "\"a\""), i == 2, "%s", text);
	}
	pg_events_clear(&events);
}

/* The oldest make room, and whoever asks for them can tell. */
Test(events, ring)
{
	struct pg_events events;
	struct pg_events_query query;
	uint64_t start;

	cr_assert_eq(pg_events_init(&events), 0);
	start = events.first;
	for (size_t i = 0; i < PG_EVENTS_MAX + 10; i++)
		add(&events, 0, "a");
	cr_expect_eq(events.first, start + 10);
	cr_expect_eq(events.next, start + PG_EVENTS_MAX + 10);
	query = (struct pg_events_query){.cursor = events.first};
	cr_expect(pg_events_find(&events, &query));
	query.cursor = events.next;
	cr_expect_not(pg_events_find(&events, &query));
	pg_events_clear(&events);
}
