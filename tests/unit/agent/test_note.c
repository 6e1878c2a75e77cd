/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

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
	cr_expect_eq(read.let, note->let);
	cr_expect_eq(read.lease.deadline, note->lease.deadline);
}

Test(note, round_trip)
{
	char members[] = "\"kind\":\"pid\",\"pid\":1\n", warnings[] = "{\"code\":\"x\"}";
	char exposures[] = "{\"id\":\"vsock\"}";
	struct pg_note note = {.digest = UINT64_MAX,
			       .verifier = PG_VERIFIER_NEW,
			       .members = members,
			       .exposures = exposures,
			       .warnings = warnings,
			       .let = 1ULL << 63 | 1,
			       .run_since = 9007199254740993,
			       .frozen = true};

	check_round_trip(&note);
	note.lease = (struct pg_lease){true, PG_PHASE_RUN, PG_LEASE_DENY, UINT64_MAX - 1};
	check_round_trip(&note);
	note.lease.then = PG_PHASE_VERIFIER;
	check_round_trip(&note);
}

/* One of a version that did not look at members. */
Test(note, without_exposures)
{
	pg_autonote struct pg_note read = {0};
	struct pg_error err = {};

	cr_assert_eq(pg_note_parse("{\"digest\":\"1\",\"verifier\":\"same\",\"members\":\"\","
				   "\"warnings\":\"\"}",
				   &read, &err),
		     0, "%s", err.text);
	cr_expect_str_eq(read.exposures, "");
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
