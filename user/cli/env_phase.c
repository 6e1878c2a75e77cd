/* SPDX-License-Identifier: Apache-2.0 */
/* phasegate env phase and destroy. */
#include <errno.h>
#include <string.h>

#include "base/json_text.h"

#include "env.h"

/* As in docs/openapi.yaml. */
#define LEASE_MAX_S (31UL * 24 * 3600)

enum phase_option {
	PHASE_EXPECT = PG_OPTION_COMMAND_FIRST,
	PHASE_SURVIVORS,
	PHASE_LEASE,
	PHASE_THEN,
	DESTROY_KILL,
	DESTROY_RELEASE,
};

static const struct option phase_options[] = {
	{"expect-generation", required_argument, NULL, PHASE_EXPECT},
	{"survivors", required_argument, NULL, PHASE_SURVIVORS},
	{"lease", required_argument, NULL, PHASE_LEASE},
	{"then", required_argument, NULL, PHASE_THEN},
	PG_AGENT_OPTIONS,
	{},
};

static int phase_option(void *userdata, int option, const char *value, struct pg_error *err)
{
	static const char *const choices[] = {"kill", "freeze", "refuse", "allow", NULL};
	static const char *const ends[] = {"setup", "run", "verifier", "deny", NULL};
	struct phasegate_set_phase *wanted = userdata;

	switch (option) {
	case PHASE_EXPECT:
		return pg_agent_number("--expect-generation", value, PG_JSON_NUMBER_MAX,
				       &wanted->expected_generation, err);
	case PHASE_SURVIVORS:
		return pg_agent_word("--survivors", value, choices, &wanted->survivors, err);
	case PHASE_LEASE:
		return pg_agent_number("--lease", value, LEASE_MAX_S, &wanted->lease_seconds, err);
	case PHASE_THEN:
		return pg_agent_word("--then", value, ends, &wanted->lease_then, err);
	default:
		return pg_fail(err, -EINVAL, "an option is not handled");
	}
}

static int phase_check(const struct pg_agent_call *call, struct pg_error *err)
{
	struct phasegate_set_phase *wanted = call->wanted;

	if (wanted->lease_then && !wanted->lease_seconds)
		return pg_fail(err, -EINVAL, "--then needs --lease SECONDS");
	return pg_agent_word("the phase", call->arguments[1], pg_agent_phases, &wanted->phase, err);
}

static int phase_run(struct pg_agent_call *call)
{
	const struct phasegate_set_phase *wanted = call->wanted;
	char *text = NULL;

	if (phasegate_set_phase(call->client, call->arguments[0], wanted, NULL, &text,
				&call->error) < 0)
		return pg_agent_failed(call);
	return pg_agent_answer(call, text, pg_env_print_change, PG_EXIT_OK);
}

int pg_env_phase(int argc, char **argv)
{
	static const struct pg_agent_command command = {
		.name = "env phase",
		.synopsis = "NAME setup|run|verifier [OPTION]...",
		.summary =
			"Puts a phase in force, and closes the connections that it does not allow.",
		.details = "  --expect-generation N     only if this generation is in force\n"
			   "  --survivors WORD          what is done about processes that were "
			   "started in run, if\n"
			   "                            the phase allows what run did not: kill "
			   "(default),\n"
			   "                            freeze, refuse or allow\n"
			   "  --lease SECONDS           after this time the phase falls back\n"
			   "  --then PHASE|deny         to this, which allows no more (default: "
			   "setup if it\n"
			   "                            does not, else everything is denied)\n",
		.least = 2,
		.most = 2,
		.options = phase_options,
		.option = phase_option,
		.check = phase_check,
		.run = phase_run,
	};
	struct phasegate_set_phase wanted = {.expected_generation = PHASEGATE_ANY_GENERATION};

	return pg_agent_command(&command, &wanted, argc, argv);
}

/* Of those that could not be frozen a warning says that they were killed. */
static const char *survivors_label(const struct pg_json_value *root)
{
	pg_autofree char *choice = pg_agent_text(root, "survivors_choice");

	return choice && !strcmp(choice, "kill") ? "killed" : "survivor";
}

void pg_env_print_change(const struct pg_json_value *root)
{
	pg_autofree char *phase = pg_agent_text(root, "phase");
	pg_autofree char *generation = pg_agent_text(root, "generation");
	pg_autofree char *took = pg_agent_text(root, "took_us");
	pg_autofree char *closed = pg_agent_text(root, "closed");
	pg_autofree char *lease = pg_env_lease_of(root);
	const bool changed = pg_json_is_true(pg_json_member(root, "changed"));

	if (phase && generation && took && closed && lease)
		printf("phase %s, generation %s%s, took %s us, %s connections closed%s%s\n", phase,
		       generation, changed ? "" : " (as before)", took, closed,
		       *lease == '-' ? "" : ", lease ", *lease == '-' ? "" : lease);
	pg_agent_survivors(stdout, survivors_label(root), pg_json_member(root, "survivors"));
	pg_agent_diagnostics(stderr, pg_json_member(root, "warnings"), "warning");
}

static const struct option destroy_options[] = {
	{"kill", no_argument, NULL, DESTROY_KILL},
	{"release", no_argument, NULL, DESTROY_RELEASE},
	PG_AGENT_OPTIONS,
	{},
};

static int destroy_option(void *userdata, int option, const char *value, struct pg_error *err)
{
	const char **processes = userdata;
	const char *word = option == DESTROY_KILL ? "kill" : "release";

	if (*processes && strcmp(*processes, word) != 0)
		return pg_fail(err, -EINVAL, "it is either --kill or --release");
	*processes = word;
	return 0;
}

static int destroy_run(struct pg_agent_call *call)
{
	const char *const *processes = call->wanted;

	if (phasegate_destroy(call->client, call->arguments[0], *processes, &call->error) < 0) {
		/* Asked to let them go on, it could not. */
		if (*processes && !strcmp(*processes, "release") &&
		    !strcmp(call->error->code, "environment_populated"))
			call->next_step = "end them, or give --kill in the place of --release";
		return pg_agent_failed(call);
	}
	if (call->json) {
		fputs("{\"name\":", stdout);
		pg_json_string(stdout, call->arguments[0]);
		puts(",\"destroyed\":true}");
	}
	return PG_EXIT_OK;
}

int pg_env_destroy(int argc, char **argv)
{
	static const struct pg_agent_command command = {
		.name = "env destroy",
		.synopsis = "NAME [--kill|--release] [OPTION]...",
		.summary = "Ends an Environment. Nothing is done if any process is in it, unless:",
		.details = "  --kill                    kill them\n"
			   "  --release                 let them go on, confined by nothing\n",
		.least = 1,
		.most = 1,
		.options = destroy_options,
		.option = destroy_option,
		.run = destroy_run,
	};
	const char *processes = NULL;

	return pg_agent_command(&command, &processes, argc, argv);
}
