/* SPDX-License-Identifier: Apache-2.0 */
/* phasegate events */
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "agent_command.h"

/* A turn waits up to 25 s in the agent. */
#define FOLLOW_TIMEOUT_MS 60000

/* For which an agent that does not serve may be one that is being started again. */
#define RESTART_SECONDS	    30
#define ATTEMPTS_PER_SECOND 5

#define CURSOR_MAX 32

enum events_option {
	EVENTS_FOLLOW = PG_OPTION_COMMAND_FIRST,
	EVENTS_ENV,
	EVENTS_CURSOR,
};

static const struct option options[] = {
	{"follow", no_argument, NULL, EVENTS_FOLLOW},
	{"env", required_argument, NULL, EVENTS_ENV},
	{"cursor", required_argument, NULL, EVENTS_CURSOR},
	PG_AGENT_OPTIONS,
	{},
};

static int parse_option(void *userdata, int option, const char *value, struct pg_error *err)
{
	struct phasegate_events *wanted = userdata;

	switch (option) {
	case EVENTS_FOLLOW:
		wanted->follow = true;
		return 0;
	case EVENTS_ENV:
		wanted->environment = value;
		return 0;
	case EVENTS_CURSOR:
		wanted->cursor = value;
		return 0;
	default:
		return pg_fail(err, -EINVAL, "an option is not handled");
	}
}

/* The number of a protocol is one that few know. */
static const char *protocol_of(const struct pg_json_value *value)
{
	uint64_t number = 0;

	if (!pg_json_number_of(value, UINT8_MAX, &number))
		return NULL;
	switch (number) {
	case IPPROTO_ICMP:
		return "icmp";
	case IPPROTO_TCP:
		return "tcp";
	case IPPROTO_UDP:
		return "udp";
	case IPPROTO_ICMPV6:
		return "icmp6";
	case IPPROTO_SCTP:
		return "sctp";
	case IPPROTO_UDPLITE:
		return "udplite";
	default:
		return NULL;
	}
}

/* "time environment event name=value..." */
static void print_event(const struct pg_json_value *event)
{
	static const char *const heads[] = {"time", "environment", "event"};
	const struct pg_json_value *field = pg_json_first(event);

	for (size_t i = 0; i < PG_ARRAY_SIZE(heads); i++) {
		pg_autofree char *text = pg_agent_text(event, heads[i]);

		printf("%s%s", i ? " " : "", text ? text : "");
	}
	for (; field; field = pg_json_next(field)) {
		const char *name = pg_json_name_of(field);
		pg_autofree char *text = pg_agent_text(event, name);
		const char *word = strcmp(name, "protocol") ? NULL : protocol_of(field);
		bool head = !strcmp(name, "cursor");

		for (size_t i = 0; i < PG_ARRAY_SIZE(heads); i++)
			head |= !strcmp(name, heads[i]);
		if (!head && pg_json_member(event, name) && text)
			printf(" %s=%s", name, word ? word : text);
	}
	putchar('\n');
}

static bool take_event(void *userdata, const char *text, size_t size)
{
	static const struct pg_json_limits limits = {.size = 16UL * 1024 * 1024,
						     .depth = 16,
						     .values = 1024UL * 1024};
	const struct pg_agent_call *call = userdata;
	pg_autojson struct pg_json *json = NULL;
	struct pg_json_problem problem = {};

	if (call->json)
		printf("%.*s\n", (int)size, text);
	else if (pg_json_parse(text, size, &limits, &json, &problem) < 0)
		fprintf(stderr, "phasegate: an event cannot be read: %s\n", problem.message);
	else
		print_event(pg_json_root(json));
	/* Nobody reads any more: the end, instead of following for ever. */
	return !ferror(stdout);
}

/* Who follows does so also past an agent that is started again, and past what is lost meanwhile. */
static bool goes_on(struct pg_agent_call *call, char *cursor, unsigned int *attempts)
{
	const struct phasegate_error *error = call->error;

	if (!strcmp(error->code, "cursor_expired") && error->object) {
		fprintf(stderr, "phasegate: events are lost: going on with the oldest kept, %s\n",
			error->object);
		snprintf(cursor, CURSOR_MAX, "%s", error->object);
	} else if (strcmp(error->code, "agent_unreachable") != 0 &&
		   strcmp(error->code, "agent_lost") != 0 && strcmp(error->code, "stopping") != 0) {
		return false;
	} else if (++*attempts > RESTART_SECONDS * ATTEMPTS_PER_SECOND) {
		return false;
	} else {
		usleep(1000000 / ATTEMPTS_PER_SECOND);
	}
	phasegate_error_free(call->error);
	call->error = NULL;
	return true;
}

static int run(struct pg_agent_call *call)
{
	struct phasegate_events wanted = *(struct phasegate_events *)call->wanted;
	unsigned int attempts = 0;
	uint64_t next = 0;
	char cursor[CURSOR_MAX] = "";

	if (wanted.follow)
		phasegate_set_timeout(call->client, FOLLOW_TIMEOUT_MS);
	do {
		if (phasegate_events(call->client, &wanted, take_event, call, &next, &call->error) <
		    0) {
			/* An agent that has never been there is not waited for. */
			if (!wanted.follow || !*cursor || !goes_on(call, cursor, &attempts))
				return pg_agent_failed(call);
			continue;
		}
		attempts = 0;
		snprintf(cursor, sizeof(cursor), "%" PRIu64, next);
		wanted.cursor = cursor;
		if (fflush(stdout) == EOF)
			return PG_EXIT_FAILURE;
	} while (wanted.follow);
	/* From where the next call goes on. */
	if (call->json)
		printf("{\"event\":\"cursor\",\"cursor\":%" PRIu64 "}\n", next);
	return PG_EXIT_OK;
}

int pg_command_events(int argc, char **argv)
{
	static const struct pg_agent_command command = {
		.name = "events",
		.synopsis = "[OPTION]...",
		.summary = "Prints events, a line each: what was created, switched, updated, "
			   "destroyed, denied.",
		.details = "  --follow                  go on with what happens from now on, also "
			   "with "
			   "an agent\n"
			   "                            that is started again within 30 seconds\n"
			   "  --env NAME                of this Environment only, from its "
			   "creation on\n"
			   "  --cursor N|now|oldest     from this event on (default: from the "
			   "oldest kept);\n"
			   "                            oldest with --env: also of earlier ones of "
			   "the name;\n"
			   "                            with --json each has its cursor, and the "
			   "last line says\n"
			   "                            from where to go on\n",
		.options = options,
		.option = parse_option,
		.run = run,
	};
	struct phasegate_events wanted = {.follow = false};

	return pg_agent_command(&command, &wanted, argc, argv);
}
