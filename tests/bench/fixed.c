/* SPDX-License-Identifier: Apache-2.0 */
/* What does not depend on the policy: probing the host, loading the programs, attaching. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "kernel/attach.h"
#include "kernel/probe.h"

static double microseconds(uint64_t since_ns)
{
	return (double)(pg_monotonic_ns() - since_ns) / PG_NSEC_PER_USEC;
}

static double probe_us(void)
{
	const uint64_t started = pg_monotonic_ns();
	struct pg_error err = {0};

	if (pg_probe_required(&err) < 0)
		fail("%s", err.text);
	return microseconds(started);
}

static double programs_us(void)
{
	const uint64_t started = pg_monotonic_ns();
	PG_CLEANUP(pg_kernel_freep) struct pg_kernel *kernel = NULL;
	struct pg_error err = {0};

	if (pg_kernel_open(NULL, &kernel, &err) < 0)
		fail("%s", err.text);
	return microseconds(started);
}

/* All hooks at a cgroup that never had any, as a new Environment has it. */
struct attached {
	int fd;
	char path[sizeof(((struct machine *)NULL)->plain_path) + 16];
};

static double attach_us(const struct machine *machine, const char *name, struct attached *attached)
{
	struct pg_error err = {0};
	uint64_t started;

	snprintf(attached->path, sizeof(attached->path), "%s/%s", machine->plain_path, name);
	if (mkdir(attached->path, 0755) < 0 ||
	    (attached->fd = open(attached->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		fail("making the cgroup %s: %s", attached->path, strerror(errno));
	started = pg_monotonic_ns();
	if (pg_attach_all(pg_host_kernel(machine->host), attached->fd, pg_hooks(true), &err) < 0)
		fail("%s", err.text);
	return microseconds(started);
}

static void detach(struct attached *attached)
{
	struct pg_error err = {0};

	if (pg_detach(attached->fd, &err) < 0)
		fail("%s", err.text);
	pg_close_fd(&attached->fd);
	rmdir(attached->path);
}

static void print_row(const char *name, double *took, size_t count)
{
	results_cell("fixed", name, "median", "us", quartiles_of(took, count));
	results_value("fixed", name, "p99", "us", percentile_of(took, count, 0.99));
	results_value("fixed", name, "worst", "us", took[count - 1]);
}

static void print_attaches(const char *name, double *took, size_t count,
			   const struct machine *machine)
{
	for (size_t i = 0; i < count; i++) {
		struct attached attached;

		took[i] = attach_us(machine, "attach", &attached);
		detach(&attached);
	}
	print_row(name, took, count);
}

void table_fixed(const struct bench_options *options, struct machine *machine)
{
	struct attached other;
	char text[128];
	pg_autofree double *took = calloc(options->attaches + BENCH_LOADS_MAX, sizeof(*took));

	if (!took)
		fail("not enough memory for the results");
	snprintf(text, sizeof(text), "Attaching %u times, the others %u times.", options->attaches,
		 options->loads);
	results_table("fixed", "Start", text);
	for (size_t i = 0; i < options->loads; i++)
		took[i] = probe_us();
	print_row("check that the host can enforce", took, options->loads);
	for (size_t i = 0; i < options->loads; i++)
		took[i] = programs_us();
	print_row("load the programs (once a process)", took, options->loads);
	print_attaches("attach all hooks, first of the host", took, options->attaches, machine);
	attach_us(machine, "other", &other);
	print_attaches("attach all hooks, beside another", took, options->attaches, machine);
	detach(&other);
}
