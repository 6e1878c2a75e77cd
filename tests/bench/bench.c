/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures of the machine it runs on, as Markdown tables: what work costs under a policy compared
 * with none, how long a switch takes, what loading a policy costs, and what names cost.
 * scripts/bench makes the two network namespaces and runs it in the client's. It judges nothing: a
 * slow machine is no failure.
 */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "policy/print.h"

#include "names.h"

static struct machine machine = {.plain_cgroup = -1};
static struct confined policies[2];

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

/* Also after a failure, so that nothing stays. */
static void clean_up(void)
{
	for (size_t i = 0; i < PG_ARRAY_SIZE(policies); i++)
		confined_destroy(&policies[i]);
	pg_host_free(PG_TAKE_PTR(machine.host));
	pg_close_fd(&machine.plain_cgroup);
	if (machine.plain_path[0])
		rmdir(machine.plain_path);
}

static void warn(void *userdata, const char *code, const char *message)
{
	fprintf(stderr, "bench: %s (%s)\n", message, code);
}

static void set_up(const struct bench_options *options)
{
	const struct pg_host_options host = {.warning = warn, .interrupt_fd = -1};
	const char *mount;
	struct pg_error err = {0};

	atexit(clean_up);
	if (pg_host_open(&host, &machine.host, &err) < 0)
		fail("%s", err.text);
	mount = pg_host_cgroup_mount(machine.host);
	snprintf(machine.plain_path, sizeof(machine.plain_path), "%s/%s", mount, options->name);
	if (mkdir(machine.plain_path, 0755) < 0)
		fail("making the cgroup %s: %s", machine.plain_path, strerror(errno));
	machine.plain_cgroup = open(machine.plain_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (machine.plain_cgroup < 0)
		fail("opening the cgroup %s: %s", machine.plain_path, strerror(errno));
	worker_memory(options->entries / 2 < BENCH_SPREAD ? options->entries / 2 : BENCH_SPREAD);
}

static void report(FILE *out, const struct bench_options *options)
{
	pg_autofree char *small = set_document(BENCH_SMALL);
	pg_autofree char *large = set_document(options->entries);

	machine_describe(out);
	table_fixed(out, options, &machine);
	table_loads(out, options, &machine);
	table_names(out, options, &machine);
	policies[0] = confined_create(machine.host, small);
	policies[1] = confined_create(machine.host, large);
	table_switches(out, options, &machine, policies);
	table_pairs(out, options, &machine, policies);
	table_veth(out, options, &machine, &policies[0]);
}

static void write_output(const char *path, const char *text)
{
	pg_autofclose FILE *file = fopen(path, "we");

	if (!file || fputs(text, file) == EOF || fflush(file))
		fail("writing %s: %s", path, strerror(errno));
}

int main(int argc, char **argv)
{
	pg_autofree char *text = NULL;
	struct bench_options options;
	size_t size;
	FILE *out;

	if (argc == 5 && !strcmp(argv[1], "worker"))
		return worker_main(argv);
	if (argc == 6 && !strcmp(argv[1], "names"))
		return names_client_main(argv);
	options_parse(&options, argc, argv);
	server_start(options.server);
	nameserver_start(options.server);
	set_up(&options);
	out = open_memstream(&text, &size);
	if (!out)
		fail("not enough memory for the report");
	report(out, &options);
	if (fclose(out))
		fail("not enough memory for the report");
	fputs(text, stdout);
	if (options.output)
		write_output(options.output, text);
	return 0;
}
