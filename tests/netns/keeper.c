/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An owner of kept Environments that does what standard input says:
 * keeper PINS|- PARENT NAMESERVER [NEVER-ALLOWED-ADDRESS|- [HOST-PORT]]
 *
 * One command a line, its words separated by tabs, each answered by one line of JSON:
 * {"ok": true, ...} or {"ok": false, "errno": "EBUSY", "error": "..."}. It owns one Environment at
 * a time. See the table at the end for the commands.
 */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json_text.h"
#include "support.h"

#define WORDS_MAX 32

struct keeper {
	struct pg_host *host;
	struct pg_environment *environment, *aside;
	struct pg_endpoint nameserver;
	unsigned int denials;
};

struct command {
	const char *name;
	int words; /* with the name; -1: any number */
	int (*run)(struct keeper *keeper, char **words, size_t count, struct pg_error *err);
};

static void warn(void *userdata, const char *code, const char *message)
{
	fprintf(stderr, "%s: %s\n", code, message);
}

static void note_denial(void *userdata, struct pg_environment *environment,
			const struct pg_event *event)
{
	struct keeper *keeper = userdata;

	keeper->denials++;
}

static void say(const char *format, ...) PG_PRINTF(1, 2);
static void say(const char *format, ...)
{
	va_list args;

	fputs("{\"ok\":true", stdout);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
}

static void say_state(const struct keeper *keeper)
{
	const struct pg_environment *environment = keeper->environment;

	say(",\"phase\":\"%s\",\"generation\":%llu,\"denied\":%s,\"id\":%llu,\"member\":",
	    pg_phase_name(pg_environment_phase(environment)),
	    (unsigned long long)pg_environment_generation(environment),
	    pg_environment_denied(environment) ? "true" : "false",
	    (unsigned long long)pg_environment_id(environment));
	pg_json_string(stdout, pg_environment_member(environment, 0));
	fputs(",\"note\":", stdout);
	pg_json_string(stdout, pg_environment_note(environment));
	fputs("}\n", stdout);
}

static int parse_policy(const char *document, struct pg_policy **ret_policy)
{
	struct pg_policy_source source = {"test", document, strlen(document)};
	pg_autodiagnostics struct pg_diagnostics diagnostics = {0};

	return pg_policy_parse(&source, 1, NULL, 0, PG_POLICY_BARE, ret_policy, &diagnostics);
}

/* MEMBER@ADDRESS@ADDRESS...: cuts it after the member and adds its addresses. */
static int take_addresses(char *word, size_t member, struct pg_environment_options *options,
			  struct pg_member_address_of *addresses)
{
	char *save = NULL;

	for (char *text = strtok_r(word, "@", &save); (text = strtok_r(NULL, "@", &save));) {
		struct pg_member_address_of *address = &addresses[options->address_count++];

		address->member = member;
		if (pg_addr_parse(text, &address->addr))
			return -EINVAL;
	}
	return 0;
}

/*
 * create NAME POLICY PHASE OPTIONS [MEMBER[@ADDRESS...]...]
 * options: letters a (attach), p (apart), e (events)
 */
static int run_create(struct keeper *keeper, char **words, size_t count, struct pg_error *err)
{
	pg_autopolicy struct pg_policy *policy = NULL;
	struct pg_environment_options options = {
		.name = words[1],
		.members = (const char *const *)words + 5,
		.member_count = count - 5,
		.attach = strchr(words[4], 'a'),
		.apart = strchr(words[4], 'p'),
		.report_denials = strchr(words[4], 'e'),
		.resolvers = &keeper->nameserver,
		.resolver_count = 1,
		.dns = PG_DNS_SETTINGS_DEFAULT,
		.owner = 1234,
		.note = "made",
	};
	struct pg_member_address_of addresses[WORDS_MAX];
	int error = parse_policy(words[2], &policy);

	options.addresses = addresses;
	for (size_t i = 5; i < count && !error; i++)
		error = take_addresses(words[i], i - 5, &options, addresses);
	if (!error)
		error = pg_phase_parse(words[3], &options.phase);
	if (error)
		return pg_fail(err, error, "a policy or phase is at fault");
	options.policy = policy;
	error = pg_environment_create(keeper->host, &options, &keeper->environment, err);
	if (!error)
		say_state(keeper);
	return error;
}

/* more ...: the same, of another one; the first one is put aside. */
static int run_more(struct keeper *keeper, char **words, size_t count, struct pg_error *err)
{
	keeper->aside = PG_TAKE_PTR(keeper->environment);
	return run_create(keeper, words, count, err);
}

static int run_swap(struct keeper *keeper, char **words, size_t count, struct pg_error *err)
{
	struct pg_environment *aside = keeper->aside;

	keeper->aside = keeper->environment;
	keeper->environment = aside;
	say("}\n");
	return 0;
}

static int run_adopt(struct keeper *keeper, char **words, size_t count, struct pg_error *err)
{
	int error = pg_environment_adopt(keeper->host, words[1], &keeper->environment, err);

	if (!error && pg_environment_owner(keeper->environment) != 1234)
		return pg_fail(err, -EIO, "the owner is another");
	if (!error)
		say_state(keeper);
	return error;
}

static int run_kept(struct keeper *keeper, char **words, size_t count, struct pg_error *err)
{
	pg_autofree char **names = NULL;
	size_t name_count;
	int error = pg_host_kept(keeper->host, &names, &name_count, err);

	if (error)
		return error;
	say(",\"names\":[");
	for (size_t i = 0; i < name_count; i++) {
		fputs(i ? "," : "", stdout);
		pg_json_string(stdout, names[i]);
	}
	fputs("]}\n", stdout);
	return 0;
}

static void say_switch(const struct pg_switch *done)
{
	say(",\"phase\":\"%s\",\"generation\":%llu,\"changed\":%s}\n", pg_phase_name(done->phase),
	    (unsigned long long)done->generation, done->changed ? "true" : "false");
}

static int run_switch(struct keeper *keeper, char **words, size_t count, struct pg_error *err)
{
	struct pg_closing closing;
	struct pg_switch done;
	enum pg_phase phase;
	int error = pg_phase_parse(words[1], &phase);

	if (error)
		return pg_fail(err, error, "no phase");
	pg_environment_close_ahead(keeper->environment, phase);
	error = pg_environment_switch(keeper->environment, phase, &done, err);
	if (!error)
		error = pg_environment_close_forbidden(keeper->environment, &closing, err);
	if (!error)
		say_switch(&done);
	return error;
}

static int run_deny(struct keeper *keeper, char **words, size_t count, struct pg_error *err)
{
	struct pg_switch done;
	int error = pg_environment_deny(keeper->environment, &done, err);

	if (!error)
		say_switch(&done);
	return error;
}

static int run_update(struct keeper *keeper, char **words, size_t count, struct pg_error *err)
{
	pg_autopolicy struct pg_policy *policy = NULL;
	struct pg_closing closing;
	struct pg_switch done;
	int error = parse_policy(words[1], &policy);

	if (error)
		return pg_fail(err, error, "a policy is at fault");
	error = pg_environment_update(keeper->environment, policy, &done, err);
	if (!error)
		error = pg_environment_close_forbidden(keeper->environment, &closing, err);
	if (!error)
		say_switch(&done);
	return error;
}

/* destroy kill|release|empty */
static int run_destroy(struct keeper *keeper, char **words, size_t count, struct pg_error *err)
{
	const enum pg_destroy how = words[1][0] == 'k'	 ? PG_DESTROY_KILL
				    : words[1][0] == 'r' ? PG_DESTROY_RELEASE
							 : PG_DESTROY_IF_EMPTY;
	int error = pg_environment_destroy(keeper->environment, how, err);

	if (error)
		return error;
	keeper->environment = NULL;
	say("}\n");
	return 0;
}

static int run_leave(struct keeper *keeper, char **words, size_t count, struct pg_error *err)
{
	pg_environment_leave(PG_TAKE_PTR(keeper->environment));
	say("}\n");
	return 0;
}

static int run_state(struct keeper *keeper, char **words, size_t count, struct pg_error *err)
{
	say_state(keeper);
	return 0;
}

static int run_note(struct keeper *keeper, char **words, size_t count, struct pg_error *err)
{
	int error = pg_environment_set_note(keeper->environment, words[1], err);

	if (!error)
		say_state(keeper);
	return error;
}

/* The time of the kernel's process times. */
static int run_now(struct keeper *keeper, char **words, size_t count, struct pg_error *err)
{
	say(",\"now\":%llu}\n", (unsigned long long)pg_boottime_ns());
	return 0;
}

/* survivors SINCE list|kill|freeze */
static int run_survivors(struct keeper *keeper, char **words, size_t count, struct pg_error *err)
{
	PG_CLEANUP(pg_survivors_clear) struct pg_survivors found = {0};
	const uint64_t since = strtoull(words[1], NULL, 10);
	int error;

	if (words[2][0] == 'l')
		error = pg_environment_survivors(keeper->environment, since, &found, err);
	else
		error = pg_environment_end_survivors(keeper->environment, since,
						     words[2][0] == 'k' ? PG_SURVIVORS_KILL
									: PG_SURVIVORS_FREEZE,
						     &found, err);
	if (error)
		return error;
	say(",\"survivors\":[");
	for (size_t i = 0; i < found.count; i++) {
		printf("%s[%d,", i ? "," : "", found.items[i].pid);
		pg_json_string(stdout, found.items[i].command);
		putchar(',');
		pg_json_string(stdout, found.items[i].cgroup);
		putchar(']');
	}
	puts("]}");
	return 0;
}

static int run_thaw(struct keeper *keeper, char **words, size_t count, struct pg_error *err)
{
	int error = pg_environment_thaw(keeper->environment, err);

	if (!error)
		say("}\n");
	return error;
}

static int run_denials(struct keeper *keeper, char **words, size_t count, struct pg_error *err)
{
	say(",\"denials\":%u}\n", keeper->denials);
	return 0;
}

static void say_link(void *userdata, const struct pg_link_view *link)
{
	bool *first = userdata;

	fputs(*first ? "{\"interface\":" : ",{\"interface\":", stdout);
	*first = false;
	pg_json_string(stdout, link->interface ? link->interface : "");
	fputs(",\"device\":", stdout);
	pg_json_string(stdout, link->device ? link->device : "");
	printf(",\"guard\":\"%s\",\"reason\":\"%s\"}", pg_link_guard_name(link->guard),
	       link->guard == PG_LINK_GUARD_NONE ? pg_unguarded_name(link->reason) : "");
}

static int run_links(struct keeper *keeper, char **words, size_t count, struct pg_error *err)
{
	bool first = true;

	say(",\"links\":[");
	pg_environment_visit_links(keeper->environment, say_link, &first);
	puts("]}");
	return 0;
}

static const struct command commands[] = {
	{"create", -1, run_create},  {"adopt", 2, run_adopt},	      {"kept", 1, run_kept},
	{"switch", 2, run_switch},   {"deny", 1, run_deny},	      {"update", 2, run_update},
	{"destroy", 2, run_destroy}, {"leave", 1, run_leave},	      {"state", 1, run_state},
	{"note", 2, run_note},	     {"survivors", 3, run_survivors}, {"thaw", 1, run_thaw},
	{"more", -1, run_more},	     {"swap", 1, run_swap},	      {"now", 1, run_now},
	{"denials", 1, run_denials}, {"links", 1, run_links},
};

static void obey(struct keeper *keeper, char *line)
{
	char *words[WORDS_MAX + 1] = {NULL}, *save = NULL;
	struct pg_error err = {0};
	size_t count = 0;

	for (char *word = strtok_r(line, "\t\n", &save); word && count < WORDS_MAX;
	     word = strtok_r(NULL, "\t\n", &save))
		words[count++] = word;
	for (size_t i = 0; i < PG_ARRAY_SIZE(commands); i++) {
		if (!count || strcmp(words[0], commands[i].name) != 0)
			continue;
		if (commands[i].words >= 0 ? count != (size_t)commands[i].words : count < 5)
			fail("%s takes other words", words[0]);
		if (!commands[i].run(keeper, words, count, &err))
			return;
		printf("{\"ok\":false,\"errno\":\"%s\",\"error\":", strerrorname_np(-err.number));
		pg_json_string(stdout, err.text);
		puts("}");
		return;
	}
	fail("no command: %s", words[0] ? words[0] : "");
}

static void serve(struct keeper *keeper)
{
	struct pollfd ready[] = {
		{.fd = STDIN_FILENO, .events = POLLIN},
		{.fd = pg_host_fd(keeper->host), .events = POLLIN},
	};
	struct pg_error err = {0};
	char line[65536];

	/* Unbuffered, so that poll() sees what has not been read. */
	setvbuf(stdin, NULL, _IONBF, 0);
	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("{\"ok\":true}");
	for (;;) {
		if (poll(ready, PG_ARRAY_SIZE(ready), -1) < 0 && errno != EINTR)
			fail("poll: %s", strerror(errno));
		if (ready[1].revents && pg_host_process(keeper->host, &err) < 0)
			fprintf(stderr, "%s\n", err.text);
		if (!ready[0].revents)
			continue;
		if (!fgets(line, sizeof(line), stdin))
			return;
		obey(keeper, line);
	}
}

int main(int argc, char **argv)
{
	struct keeper keeper = {0};
	struct pg_host_options options = {
		.warning = warn,
		.denied = note_denial,
		.userdata = &keeper,
		.interrupt_fd = -1,
	};
	struct pg_prefix never_allowed;
	struct pg_error err = {0};
	struct pg_addr addr;
	uint16_t port;

	if (argc < 4 || pg_endpoint_parse(argv[3], PG_PORT_DNS, &keeper.nameserver) < 0)
		fail("usage: keeper PINS|- PARENT NAMESERVER [NEVER-ALLOWED-ADDRESS|- "
		     "[HOST-PORT]]");
	if (argc > 4 && !pg_addr_parse(argv[4], &addr)) {
		never_allowed = pg_prefix_from_addr(&addr);
		options.never_allow = &never_allowed;
		options.never_allow_count = 1;
	}
	if (argc > 5) {
		port = (uint16_t)strtoul(argv[5], NULL, 10);
		options.host_ports = &port;
		options.host_port_count = 1;
	}
	options.pins = strcmp(argv[1], "-") != 0 ? argv[1] : NULL;
	options.parent = argv[2];
	if (pg_host_open(&options, &keeper.host, &err) < 0) {
		printf("{\"ok\":false,\"errno\":\"%s\",\"error\":", strerrorname_np(-err.number));
		pg_json_string(stdout, err.text);
		puts("}");
		return EXIT_FAILURE;
	}
	serve(&keeper);
	if (keeper.environment)
		pg_environment_leave(keeper.environment);
	if (keeper.aside)
		pg_environment_leave(keeper.aside);
	pg_host_free(keeper.host);
	return EXIT_SUCCESS;
}
