/* SPDX-License-Identifier: Apache-2.0 */
#include "exposures.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

static bool is_refused(const struct pg_config *config, enum pg_exposure_id id, uint64_t accepted)
{
	switch (config->exposures[id]) {
	case PG_EXPOSURE_REFUSE:
		return true;
	case PG_EXPOSURE_ASK:
		return !(accepted & PG_EXPOSURE_BIT(id));
	case PG_EXPOSURE_WARN:
	case PG_EXPOSURE_LIST:
		return false;
	}
	return true;
}

static void write_one(struct pg_json_writer *json, const struct pg_exposure *exposure)
{
	pg_json_write_string(json, "id", pg_exposure_name(exposure->id));
	if (exposure->ended)
		pg_json_write_bool(json, "ended", true);
	pg_json_write_number(json, "member", exposure->member);
	pg_json_write_string(json, "message", exposure->text);
}

static void write_refused(const struct pg_config *config, const struct pg_exposure_list *list,
			  uint64_t accepted, struct pg_json_writer *json)
{
	pg_json_write_open(json, "exposures", '[');
	for (size_t i = 0; i < list->count; i++) {
		const enum pg_exposure_id id = list->items[i].id;

		if (!is_refused(config, id, accepted))
			continue;
		pg_json_write_open(json, NULL, '{');
		write_one(json, &list->items[i]);
		pg_json_write_string(json, "next_step", pg_exposure_next_step(id));
		pg_json_write_bool(json, "acceptable", config->exposures[id] == PG_EXPOSURE_ASK);
		pg_json_write_close(json, '}');
	}
	pg_json_write_close(json, ']');
}

static void refuse(const struct pg_config *config, const struct pg_exposure_list *list,
		   uint64_t accepted, const struct pg_exposure *first, size_t count,
		   struct pg_reply *reply)
{
	const bool ask = config->exposures[first->id] == PG_EXPOSURE_ASK;
	struct pg_json_writer *json;
	char object[32], next_step[512], more[64] = "";

	snprintf(object, sizeof(object), "/members/%zu", first->member);
	snprintf(next_step, sizeof(next_step), "%s%s%s%s", pg_exposure_next_step(first->id),
		 ask ? "; or name \""
		     : "; whether a request may accept it the operator says"
		       " (exposures in the agent's settings)",
		 ask ? pg_exposure_name(first->id) : "", ask ? "\" in accept" : "");
	if (count > 1)
		snprintf(more, sizeof(more), "; and %zu more, see exposures", count - 1);
	json = pg_reply_open_error(reply, PG_API_EXPOSURE_REFUSED, object, next_step, "%s%s",
				   first->text, more);
	if (!json)
		return;
	write_refused(config, list, accepted, json);
	pg_reply_close(reply);
}

int pg_exposures_judge(const struct pg_agent *agent, const struct pg_exposure_list *list,
		       uint64_t accepted, struct pg_reply *reply)
{
	const struct pg_exposure *first = NULL;
	size_t count = 0;

	for (size_t i = 0; i < list->count; i++) {
		if (!is_refused(agent->config, list->items[i].id, accepted))
			continue;
		first = first ? first : &list->items[i];
		count++;
	}
	if (list->incomplete)
		return pg_reply_error(reply, PG_API_OUT_OF_MEMORY, "/members", NULL,
				      "no memory to look at the members");
	if (!first)
		return 0;
	refuse(agent->config, list, accepted, first, count, reply);
	return -EINVAL;
}

void pg_exposures_warn(struct pg_agent *agent, const struct pg_exposure_list *list,
		       uint64_t accepted)
{
	for (size_t i = 0; i < list->count; i++) {
		const struct pg_exposure *one = &list->items[i];

		if (agent->config->exposures[one->id] != PG_EXPOSURE_LIST &&
		    !is_refused(agent->config, one->id, accepted))
			pg_agent_warn(agent, pg_exposure_name(one->id), one->text);
	}
}

void pg_exposures_warn_accepted(struct pg_agent *agent, uint64_t accepted)
{
	for (size_t i = 0; i < PG_EXPOSURE_COUNT; i++) {
		const char *name = pg_exposure_name((enum pg_exposure_id)i);
		char message[256];

		if (!(accepted & PG_EXPOSURE_BIT(i)) ||
		    agent->config->exposures[i] != PG_EXPOSURE_REFUSE)
			continue;
		snprintf(message, sizeof(message),
			 "%s is not accepted: the operator's settings refuse it to every request%s",
			 name,
			 pg_inspect_rights_of((enum pg_exposure_id)i)
				 ? ", and what is executed with it is ended"
				 : "");
		pg_agent_warn(agent, "accept_refused", message);
	}
}

int pg_exposures_print(const struct pg_exposure_list *list, char **ret_elements)
{
	pg_autojsonwriter struct pg_json_writer json = {0};
	size_t size;
	int error = pg_json_writer_start(&json);

	for (size_t i = 0; !error && i < list->count; i++) {
		pg_json_write_open(&json, NULL, '{');
		write_one(&json, &list->items[i]);
		pg_json_write_close(&json, '}');
	}
	return error ? error : pg_json_writer_end(&json, ret_elements, &size);
}

void pg_exposures_keep(struct pg_managed *managed, const struct pg_exposure_list *list)
{
	pg_autofree char *elements = NULL;
	pg_autonote struct pg_note note = {0};
	struct pg_error err = {};
	char *both;

	if (pg_exposures_print(list, &elements) < 0 || pg_note_copy(&managed->note, &note) < 0 ||
	    asprintf(&both, "%s%s%s", note.exposures, *note.exposures ? "," : "", elements) < 0)
		return;
	free(note.exposures);
	note.exposures = both;
	if (pg_managed_set_note(managed, &note, &err) < 0)
		pg_log_warning("%s: %s", pg_environment_name(managed->environment), err.text);
}

void pg_exposures_describe(const struct pg_config *config, struct pg_json_writer *json)
{
	for (size_t i = 0; i < PG_EXPOSURE_COUNT; i++)
		pg_json_write_string(json, pg_exposure_name((enum pg_exposure_id)i),
				     pg_exposure_level_name(config->exposures[i]));
}

int pg_exposures_read(const struct pg_json_value *array, uint64_t *ret_accepted,
		      struct pg_reply *reply)
{
	const struct pg_json_value *element = array ? pg_json_first(array) : NULL;
	uint64_t accepted = 0;

	for (size_t i = 0; element; element = pg_json_next(element), i++) {
		const char *name = pg_json_string_of(element);
		enum pg_exposure_id id;
		char object[32];

		snprintf(object, sizeof(object), "/accept/%zu", i);
		if (!name || pg_exposure_parse(name, &id) < 0)
			return pg_reply_error(reply, PG_API_REQUEST_INVALID, object, NULL,
					      "there is no exposure \"%s\"; docs/containers.md and"
					      " GET /v1/capabilities list them",
					      name ? name : "");
		accepted |= PG_EXPOSURE_BIT(id);
	}
	*ret_accepted = accepted;
	return 0;
}
