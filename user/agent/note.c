/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "json/json.h"
#include "json/write.h"
#include "managed.h"

/* 64 members by the longest path and as many warnings. */
static const struct pg_json_limits limits = {.size = 4UL * 1024 * 1024,
					     .depth = 5,
					     .values = 65536};

static const char *const verifiers[] = {
#define PG_X(symbol, name) [PG_VERIFIER_##symbol] = name,
	PG_VERIFIERS(PG_X)
#undef PG_X
};

const char *pg_verifier_name(enum pg_verifier verifier)
{
	return verifiers[verifier];
}

int pg_verifier_parse(const char *name, enum pg_verifier *ret_verifier)
{
	for (size_t i = 0; i < PG_ARRAY_SIZE(verifiers); i++) {
		if (strcmp(name, verifiers[i]) == 0) {
			*ret_verifier = (enum pg_verifier)i;
			return 0;
		}
	}
	return -EINVAL;
}

void pg_note_clear(struct pg_note *note)
{
	free(note->members);
	free(note->exposures);
	free(note->warnings);
	*note = (struct pg_note){0};
}

int pg_note_copy(const struct pg_note *note, struct pg_note *ret_copy)
{
	pg_autonote struct pg_note copy = *note;

	copy.members = strdup(note->members);
	copy.exposures = strdup(note->exposures);
	copy.warnings = strdup(note->warnings);
	if (!copy.members || !copy.exposures || !copy.warnings)
		return -ENOMEM;
	*ret_copy = copy;
	copy = (struct pg_note){0};
	return 0;
}

/* As it is written. The texts of JSON are kept as strings: nobody looks into them. */
struct stored {
	uint64_t digest, let, run_since, lease_deadline;
	const char *verifier, *members, *exposures, *warnings, *lease_phase, *lease_then;
	bool apart, frozen;
};

static const struct pg_json_field fields[] = {
	PG_JSON_FIELD(struct stored, digest, PG_JSON_DECIMAL, .required = true),
	PG_JSON_FIELD(struct stored, verifier, PG_JSON_STRING, .required = true),
	PG_JSON_FIELD(struct stored, apart, PG_JSON_BOOL),
	PG_JSON_FIELD(struct stored, members, PG_JSON_STRING, .required = true),
	PG_JSON_FIELD(struct stored, exposures, PG_JSON_STRING),
	PG_JSON_FIELD(struct stored, let, PG_JSON_DECIMAL),
	PG_JSON_FIELD(struct stored, warnings, PG_JSON_STRING, .required = true),
	PG_JSON_FIELD(struct stored, run_since, PG_JSON_DECIMAL),
	PG_JSON_FIELD(struct stored, frozen, PG_JSON_BOOL),
	PG_JSON_FIELD(struct stored, lease_phase, PG_JSON_STRING),
	PG_JSON_FIELD(struct stored, lease_then, PG_JSON_STRING),
	PG_JSON_FIELD(struct stored, lease_deadline, PG_JSON_DECIMAL),
};

int pg_note_print(const struct pg_note *note, char **ret_text)
{
	pg_autojsonwriter struct pg_json_writer json = {0};
	size_t size;
	int error = pg_json_writer_start(&json);

	if (error)
		return error;
	pg_json_write_open(&json, NULL, '{');
	pg_json_write_decimal(&json, "digest", note->digest);
	pg_json_write_string(&json, "verifier", pg_verifier_name(note->verifier));
	pg_json_write_bool(&json, "apart", note->apart);
	pg_json_write_string(&json, "members", note->members);
	pg_json_write_string(&json, "exposures", note->exposures);
	pg_json_write_decimal(&json, "let", note->let);
	pg_json_write_string(&json, "warnings", note->warnings);
	pg_json_write_decimal(&json, "run_since", note->run_since);
	pg_json_write_bool(&json, "frozen", note->frozen);
	if (note->lease.set) {
		pg_json_write_string(&json, "lease_phase", pg_phase_name(note->lease.phase));
		if (note->lease.then != PG_LEASE_DENY)
			pg_json_write_string(&json, "lease_then",
					     pg_phase_name((enum pg_phase)note->lease.then));
		pg_json_write_decimal(&json, "lease_deadline", note->lease.deadline);
	}
	pg_json_write_close(&json, '}');
	return pg_json_writer_end(&json, ret_text, &size);
}

static int take_lease(const struct stored *stored, struct pg_lease *lease)
{
	enum pg_phase then;

	lease->set = stored->lease_phase;
	lease->then = PG_LEASE_DENY;
	lease->deadline = stored->lease_deadline;
	if (!lease->set)
		return 0;
	if (pg_phase_parse(stored->lease_phase, &lease->phase) < 0)
		return -EINVAL;
	if (!stored->lease_then)
		return 0;
	if (pg_phase_parse(stored->lease_then, &then) < 0)
		return -EINVAL;
	lease->then = (int)then;
	return 0;
}

int pg_note_parse(const char *text, struct pg_note *ret_note, struct pg_error *err)
{
	pg_autojson struct pg_json *json = NULL;
	pg_autonote struct pg_note note = {0};
	struct pg_json_problem problem = {};
	struct stored stored = {0};
	int error = pg_json_parse(text, strlen(text), &limits, &json, &problem);

	if (!error)
		error = pg_json_read(json, pg_json_root(json), "", fields, PG_ARRAY_SIZE(fields),
				     &stored, &problem);
	if (error)
		return pg_fail(err, error, "the note cannot be read: %s %s", problem.pointer,
			       problem.message);
	if (pg_verifier_parse(stored.verifier, &note.verifier) < 0 ||
	    take_lease(&stored, &note.lease) < 0)
		return pg_fail(err, -EINVAL, "the note has a word that this version does not know");
	note.digest = stored.digest;
	note.apart = stored.apart;
	note.let = stored.let;
	note.run_since = stored.run_since;
	note.frozen = stored.frozen;
	note.members = strdup(stored.members);
	note.exposures = strdup(stored.exposures ? stored.exposures : "");
	note.warnings = strdup(stored.warnings);
	if (!note.members || !note.exposures || !note.warnings)
		return pg_fail(err, -ENOMEM, "no memory for a note");
	*ret_note = note;
	note = (struct pg_note){0};
	return 0;
}

int pg_managed_set_note(struct pg_managed *managed, struct pg_note *note, struct pg_error *err)
{
	pg_autofree char *text = NULL;
	int error = pg_note_print(note, &text);

	if (error)
		return pg_fail(err, error, "no memory for a note");
	error = pg_environment_set_note(managed->environment, text, err);
	if (error)
		return error;
	pg_note_clear(&managed->note);
	managed->note = *note;
	*note = (struct pg_note){0};
	return 0;
}
