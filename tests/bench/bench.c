/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures of the machine it runs on, as JSON lines: what work costs under a policy compared with
 * none and with what else is in use, how long a switch takes, what loading a policy costs, and what
 * names cost. scripts/bench makes the network namespaces, runs it in the client's, and renders the
 * tables. It judges nothing: a slow machine is no failure.
 */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "kernel/kernel.h"
#include "policy/print.h"

#include "names.h"

static struct machine machine = {.plain_cgroup = -1};

static const struct {
	const char *name;
	bench_table *run;
} tables[] = {
	{"fixed", table_fixed},
	{"memory", table_memory},
	{"environments", table_environments},
	{"floods", table_floods},
	{"accepts", table_accepts},
	{"loads", table_loads},
	{"names", table_names},
	{"switches", table_switches},
	{"pairs", table_pairs},
	{"programs", table_programs},
};

struct pg_policy *bench_parse(const char *document, uint64_t *ret_ns)
{
	const struct pg_policy_source source = {"bench", document, strlen(document)};
	pg_autodiagnostics struct pg_diagnostics diagnostics = {0};
	const uint64_t started = pg_monotonic_ns();
	struct pg_policy *policy;

	if (pg_policy_parse(&source, 1, NULL, 0, PG_POLICY_BARE, &policy, &diagnostics) < 0) {
		pg_diagnostics_print(stderr, &diagnostics, &source);
		fail("a policy of the benchmark's own is at fault");
	}
	*ret_ns = pg_monotonic_ns() - started;
	return policy;
}

struct confined confined_create(struct pg_host *host, const char *document)
{
	struct pg_environment_options options = {.phase = PG_PHASE_SETUP};
	struct confined made = {0};
	struct pg_error err = {0};
	uint64_t ignored;

	made.policy = bench_parse(document, &ignored);
	options.policy = made.policy;
	if (pg_environment_create(host, &options, &made.environment, &err) < 0)
		fail("%s", err.text);
	return made;
}

void confined_destroy(struct confined *confined)
{
	struct pg_environment *environment = PG_TAKE_PTR(confined->environment);
	struct pg_error err = {0};

	if (environment && pg_environment_destroy(environment, PG_DESTROY_KILL, &err) < 0)
		fail("%s", err.text);
	pg_policy_free(PG_TAKE_PTR(confined->policy));
}

void forget_flows(struct pg_host *host, const struct pg_environment *environment)
{
	const uint64_t id = pg_environment_id(environment);
	struct pg_kernel *kernel = pg_host_kernel(host);
	struct pg_error err = {0};

	pg_flows_expire(kernel, id);
	if (pg_flows_allow(kernel, id, &err) < 0)
		fail("%s", err.text);
}

/* After a failure scripts/bench ends the Environments. */
static void clean_up(void)
{
	pg_host_free(PG_TAKE_PTR(machine.host));
	pg_close_fd(&machine.plain_cgroup);
	if (machine.plain_path[0])
		rmdir(machine.plain_path);
}

static void warn(void *userdata, const char *code, const char *message)
{
	fprintf(stderr, "bench: %s (%s)\n", message, code);
}

static void denied(void *userdata, struct pg_environment *environment, const struct pg_event *event)
{
	(void)userdata;
	if (machine.denied)
		machine.denied(machine.userdata, environment, event);
}

/* A thousand Environments have some descriptors each. */
static void raise_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static void set_up(const struct bench_options *options)
{
	const struct pg_host_options host = {.warning = warn, .denied = denied, .interrupt_fd = -1};
	const char *mount;
	struct pg_error err = {0};

	raise_descriptors();
	if (pg_host_open(&host, &machine.host, &err) < 0)
		fail("%s", err.text);
	mount = pg_host_cgroup_mount(machine.host);
	snprintf(machine.plain_path, sizeof(machine.plain_path), "%s/%s", mount, options->name);
	if (mkdir(machine.plain_path, 0755) < 0)
		fail("making the cgroup %s: %s", machine.plain_path, strerror(errno));
	machine.plain_cgroup = open(machine.plain_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (machine.plain_cgroup < 0)
		fail("opening the cgroup %s: %s", machine.plain_path, strerror(errno));
	worker_memory(BENCH_SPREAD, options->server);
}

/* name is in the list, or there is none. */
static bool wanted(const char *name, const char *list)
{
	const size_t length = strlen(name);

	if (!list)
		return true;
	for (; *list; list += strcspn(list, ","), list += *list == ',')
		if (strcspn(list, ",") == length && !strncmp(list, name, length))
			return true;
	return false;
}

static void check_tables(const char *list)
{
	for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',') {
		const int length = (int)strcspn(at, ",");
		bool known = false;

		for (size_t i = 0; i < PG_ARRAY_SIZE(tables); i++)
			known |= (int)strlen(tables[i].name) == length &&
				 !strncmp(at, tables[i].name, (size_t)length);
		if (!known)
			fail("there is no table of the name %.*s", length, at);
	}
}

int main(int argc, char **argv)
{
	struct bench_options options;

	if (argc == 5 && !strcmp(argv[1], "worker"))
		return worker_main(argv);
	if (argc == 4 && !strcmp(argv[1], "rules"))
		return rules_main(argv);
	if (argc == 6 && !strcmp(argv[1], "names"))
		return names_client_main(argv);
	options_parse(&options, argc, argv);
	check_tables(options.only);
	server_start(options.server);
	nameserver_start(options.server);
	set_up(&options);
	results_open(options.output);
	machine_describe();
	for (size_t i = 0; i < PG_ARRAY_SIZE(tables); i++)
		if (wanted(tables[i].name, options.only))
			tables[i].run(&options, &machine);
	results_close();
	clean_up();
	return 0;
}
