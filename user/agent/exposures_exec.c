/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is executed in an Environment later, as by a container that is started in a cgroup that was
 * made for them, with rights for which a member would have been refused: the kernel ends it
 * (kernel/exec.h); here it is said which rights these are, and what has been ended.
 */
#include "exposures.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <phasegate/abi/exec.h>

#include "base/log.h"
#include "base/text.h"

uint64_t pg_exposures_let(const struct pg_config *config, const struct pg_exposure_list *found,
			  uint64_t accepted)
{
	uint64_t let = 0;

	for (size_t i = 0; i < PG_EXPOSURE_COUNT; i++)
		if (config->exposures[i] == PG_EXPOSURE_ASK)
			let |= accepted & PG_EXPOSURE_BIT(i);
	for (size_t i = 0; i < found->count; i++)
		let |= PG_EXPOSURE_BIT(found->items[i].id);
	return let;
}

uint64_t pg_exposures_refused_rights(const struct pg_config *config, uint64_t let)
{
	uint64_t rights = 0;

	for (size_t i = 0; i < PG_EXPOSURE_COUNT; i++) {
		const enum pg_exposure_level level = config->exposures[i];

		if ((level == PG_EXPOSURE_REFUSE || level == PG_EXPOSURE_ASK) &&
		    !(let & PG_EXPOSURE_BIT(i)))
			rights |= pg_inspect_rights_of((enum pg_exposure_id)i);
	}
	/* Who may have all of them may give up some. */
	if (let & PG_EXPOSURE_BIT(PG_EXPOSURE_PRIVILEGED))
		rights &= ~PG_EXEC_CAPABILITIES;
	return rights;
}

static size_t member_of(const struct pg_environment *environment, uint64_t cgroup_id)
{
	for (size_t i = 0; i < pg_environment_member_count(environment); i++)
		if (pg_environment_member_id(environment, i) == cgroup_id)
			return i;
	return 0;
}

static void find(const struct pg_environment *environment, const struct pg_event_exec *executed,
		 struct pg_exposure_list *found)
{
	/* Both names come from inside. */
	pg_autofree char *program =
		pg_text_printable(executed->program,
				  strnlen(executed->program, sizeof(executed->program)), 64);
	pg_autofree char *cgroup =
		pg_text_printable(executed->cgroup,
				  strnlen(executed->cgroup, sizeof(executed->cgroup)), 255);
	char name[512];
	struct pg_inspection inspection = {
		.name = name,
		.member = member_of(environment, executed->event.cgroup_id),
		.found = found,
	};

	snprintf(name, sizeof(name), "the program \"%s\", executed in the cgroup %s,",
		 program ? program : "", cgroup ? cgroup : "");
	pg_inspect_executed(&inspection, executed->rights);
}

static void report(struct pg_agent *agent, const struct pg_environment *environment,
		   const struct pg_exposure *one, const char *message)
{
	const char *name = pg_environment_name(environment);
	struct pg_json_writer json;

	pg_log_warning("%s: %s", name, message);
	if (!pg_agent_open_event(agent, &json, "exposure", name))
		return;
	pg_json_write_string(&json, "exposure", pg_exposure_name(one->id));
	pg_json_write_string(&json, "message", message);
	pg_json_write_string(&json, "cgroup", pg_environment_member(environment, one->member));
	pg_json_write_bool(&json, "ended", one->ended);
	pg_agent_close_event(agent, &json, pg_environment_owner(environment), name);
}

/* Of each kind the first one. */
static void keep(struct pg_managed *managed, const struct pg_exposure *one, const char *message)
{
	pg_autoexposures struct pg_exposure_list fresh = {0};
	char text[64];

	snprintf(text, sizeof(text), "\"id\":\"%s\"%s", pg_exposure_name(one->id),
		 one->ended ? ",\"ended\":true" : "");
	if (strstr(managed->note.exposures, text))
		return;
	pg_exposures_add(&fresh, one->id, one->member, "%s", message);
	if (fresh.count > 0)
		fresh.items[0].ended = one->ended;
	pg_exposures_keep(managed, &fresh);
}

void pg_exposures_executed(struct pg_agent *agent, const struct pg_environment *environment,
			   const struct pg_event_exec *executed)
{
	struct pg_managed *managed = pg_agent_find(agent, pg_environment_name(environment));
	pg_autoexposures struct pg_exposure_list found = {0};

	find(environment, executed, &found);
	for (size_t i = 0; i < found.count; i++) {
		struct pg_exposure *one = &found.items[i];
		char message[1024];

		one->ended = executed->error == 0;
		snprintf(message, sizeof(message), "%s; %s%s", one->text,
			 one->ended ? "it was ended before its first instruction"
				    : "it could not be ended: ",
			 one->ended ? "" : strerror(-executed->error));
		report(agent, environment, one, message);
		if (managed)
			keep(managed, one, message);
	}
}
