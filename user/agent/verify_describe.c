/* SPDX-License-Identifier: Apache-2.0 */
/* The reply: a row for each try, and what all of them say together. */
#include "verify.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"

/* Of a workload that are looked at: a container's are under one filter as a rule. */
#define PROCESSES_MAX 64

/* Rows are written once they are judged; what is seen meanwhile decides the whole. */
struct summary {
	bool wrong, inconclusive;
};

static void note(struct summary *summary, const struct pg_verify_judgement *judgement)
{
	summary->wrong |= judgement->wrong;
	summary->inconclusive |= judgement->result == PG_VERIFY_RESULT_INCONCLUSIVE;
}

static void write_judgement(const struct pg_verify_judgement *judgement,
			    struct pg_json_writer *json)
{
	pg_json_write_string(json, "result", pg_verify_result_name(judgement->result));
	pg_json_write_bool(json, "wrong", judgement->wrong);
	pg_json_write_string(json, "reason", judgement->reason);
}

static void write_target(const struct pg_verification *verification, enum pg_verify_which which,
			 const struct pg_verify_judgement *judgement, const char *name,
			 struct pg_json_writer *json)
{
	const struct pg_verify_target *target = &verification->targets[which];
	const struct pg_verify_outcome *outcome = &verification->report.outcomes[which];
	const bool known = outcome->tried && !outcome->unresolved;
	char text[PG_ADDR_TEXT];

	pg_json_write_open(json, name, '{');
	pg_json_write_string(json, "target", target->given ? target->text : NULL);
	pg_json_write_string(json, "address",
			     known ? pg_addr_format(&outcome->endpoint.addr, text) : NULL);
	write_judgement(judgement, json);
	pg_json_write_close(json, '}');
}

static void write_lookup(const struct pg_verify_phase *phase, enum pg_verify_which which,
			 const char *name, struct summary *summary, struct pg_json_writer *json)
{
	char text[PG_ADDR_TEXT];

	if (!phase->rows[which].given) {
		pg_json_write_null(json, name);
		return;
	}
	note(summary, &phase->rows[which].judgement);
	pg_json_write_open(json, name, '{');
	pg_json_write_string(json, "address", pg_addr_format(&phase->rows[which].addr, text));
	write_judgement(&phase->rows[which].judgement, json);
	pg_json_write_close(json, '}');
}

static void write_phases(const struct pg_verification *verification,
			 const struct pg_environment *environment, struct summary *summary,
			 struct pg_json_writer *json)
{
	pg_json_write_open(json, "phases", '{');
	for (size_t i = 0; i < PG_PHASE_COUNT; i++) {
		const enum pg_phase phase = (enum pg_phase)i;
		struct pg_verify_phase looked_up;

		if (phase == pg_environment_phase(environment))
			continue;
		pg_verify_look_up_phase(verification->agent->config, environment, phase,
					&looked_up);
		pg_json_write_open(json, pg_phase_name(phase), '{');
		write_lookup(&looked_up, PG_VERIFY_ALLOWED, "allowed", summary, json);
		write_lookup(&looked_up, PG_VERIFY_BLOCKED, "blocked", summary, json);
		pg_json_write_close(json, '}');
	}
	pg_json_write_close(json, '}');
}

static void write_vectors(const struct pg_verification *verification,
			  const struct pg_verify_situation *situation, struct summary *summary,
			  struct pg_json_writer *json)
{
	pg_json_write_open(json, "vectors", '[');
	for (size_t i = 0; i < PG_VERIFY_VECTOR_COUNT; i++) {
		const enum pg_verify_vector vector = (enum pg_verify_vector)i;
		const struct pg_verify_judgement judgement =
			pg_verify_judge_vector(verification, vector, situation);

		note(summary, &judgement);
		pg_json_write_open(json, NULL, '{');
		pg_json_write_string(json, "name", pg_verify_vector_name(vector));
		pg_json_write_string(json, "what", pg_verify_vector_text(vector));
		pg_json_write_string(json, "expected",
				     verification->plans[i].passes ? "passed" : "blocked");
		write_judgement(&judgement, json);
		pg_json_write_close(json, '}');
	}
	pg_json_write_close(json, ']');
}

static bool has_filter(pid_t pid)
{
	char path[64], text[4096];
	const char *line;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	if (pg_file_read_small_at(AT_FDCWD, path, text, sizeof(text)) < 0)
		return false;
	line = strstr(text, "\nSeccomp:\t");
	return line && line[strlen("\nSeccomp:\t")] == '2';
}

/* Whether every process of the workload is under a filter of system calls, as far as is looked. */
static bool is_filtered(const struct pg_environment *environment)
{
	struct pg_survivors processes = {};
	struct pg_error unused = {};
	bool filtered;

	if (pg_environment_survivors(environment, 0, &processes, &unused) < 0)
		return false;
	filtered = processes.count > 0;
	for (size_t i = 0; filtered && i < processes.count && i < PROCESSES_MAX; i++)
		filtered = has_filter(processes.items[i].pid);
	pg_survivors_clear(&processes);
	return filtered;
}

static struct pg_verify_situation look(const struct pg_verification *verification,
				       const struct pg_environment *environment)
{
	struct pg_counters counters = {};
	struct pg_error unused = {};
	const bool counted = pg_environment_counters(environment, &counters, &unused) == 0;

	return (struct pg_verify_situation){
		.same_generation =
			pg_environment_generation(environment) == verification->generation,
		.denied_more = counted && counters.verdict[PG_COUNT_CONNECT][PG_DENY] >
						  verification->denied_before,
		.asked_more =
			counted && counters.reason[PG_REASON_LISTENER] > verification->asked_before,
		.filtered = is_filtered(environment),
	};
}

void pg_verification_describe(const struct pg_verification *verification,
			      const struct pg_managed *managed, struct pg_json_writer *json)
{
	const struct pg_environment *environment = managed->environment;
	const enum pg_phase phase = pg_environment_phase(environment);
	const struct pg_verify_situation situation = look(verification, environment);
	/* With no network at all there is nothing that could be reached. */
	const bool nothing =
		pg_environment_denied(environment) ||
		pg_environment_policy(environment)->phases[phase].mode == PG_MODE_NO_NETWORK;
	const bool wanted = verification->targets[PG_VERIFY_ALLOWED].given || !nothing;
	struct pg_verify_judgement judgements[PG_VERIFY_COUNT];
	struct summary summary = {.wrong = false};

	for (size_t i = 0; i < PG_VERIFY_COUNT; i++) {
		judgements[i] =
			pg_verify_judge_target(verification, (enum pg_verify_which)i, &situation);
		if (i == PG_VERIFY_BLOCKED || wanted)
			note(&summary, &judgements[i]);
	}
	pg_json_write_string(json, "name", pg_environment_name(environment));
	pg_json_write_string(json, "phase", pg_phase_name(phase));
	pg_json_write_number(json, "generation", pg_environment_generation(environment));
	if (wanted)
		write_target(verification, PG_VERIFY_ALLOWED, &judgements[PG_VERIFY_ALLOWED],
			     "allowed", json);
	else
		pg_json_write_null(json, "allowed");
	write_target(verification, PG_VERIFY_BLOCKED, &judgements[PG_VERIFY_BLOCKED], "blocked",
		     json);
	write_phases(verification, environment, &summary, json);
	write_vectors(verification, &situation, &summary, json);
	pg_json_write_string(json, "result",
			     summary.wrong	    ? "not_enforced"
			     : summary.inconclusive ? "inconclusive"
						    : "enforced");
}
