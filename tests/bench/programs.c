/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each program takes, by the kernel's own statistics (BPF_ENABLE_STATS) over traffic of real
 * sockets: a test run would have neither the cgroup's header nor a socket of the Environment. What
 * disturbs a run makes it longer, so the least of many short batches is what is meant.
 */
#include "programs.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <net/if.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/file.h"
#include "kernel/attach.h"
#include "kernel/kernel_internal.h"
#include "kernel/link.h"

#include "results.h"

#define PROGRAMS_MAX 32
#define BATCHES	     3	    /* in each round */
#define DEVICE	     "eth0" /* on both sides */
#define TABLE	     "programs"

static const char description[] =
	"What one run of a program takes, by the kernel's statistics (which take some ns "
	"themselves: "
	"compare with the empty program), and how often it is run in one operation. With the guard "
	"at the veth. The least of many short batches.";

struct statistics {
	uint64_t ns[PROGRAMS_MAX], runs[PROGRAMS_MAX];
};

struct program {
	const char *name;
	int fd;
};
/* Those of the Environments, and behind them the empty ones. */
static struct program programs[PROGRAMS_MAX];
static size_t program_count;

struct figure {
	double ns;   /* of one run, the least; infinite: it was not run */
	double runs; /* per operation */
};
struct figures {
	bool missing; /* the traffic is not to be had here */
	struct figure programs[PROGRAMS_MAX];
};

enum variant {
	SMALL,
	LARGE,
	EMPTY,
	VARIANTS,
};

static void read_statistics(struct statistics *ret)
{
	for (size_t i = 0; i < program_count; i++) {
		struct bpf_prog_info info = {0};
		__u32 size = sizeof(info);

		if (bpf_obj_get_info_by_fd(programs[i].fd, &info, &size))
			fail("reading the statistics of %s: %s", programs[i].name, strerror(errno));
		ret->ns[i] = info.run_time_ns;
		ret->runs[i] = info.run_cnt;
	}
}

static void note(struct figures *figures, const struct statistics *before,
		 const struct statistics *after, size_t operations)
{
	for (size_t i = 0; i < program_count; i++) {
		const double runs = (double)(after->runs[i] - before->runs[i]);
		const double ns = (double)(after->ns[i] - before->ns[i]) / runs;
		struct figure *figure = &figures->programs[i];

		/* Of what is run a few times only, by the way, nothing can be said. */
		if (runs * 10 < (double)operations || ns >= figure->ns)
			continue;
		*figure = (struct figure){ns, runs / (double)operations};
	}
}

static pid_t start_plain(const struct machine *machine, struct traffic_child *child)
{
	const pid_t pid = fork();

	if (pid < 0)
		fail("fork: %s", strerror(errno));
	if (pid)
		return pid;
	if (pg_file_write_at(machine->plain_cgroup, "cgroup.procs", "0", NULL) < 0)
		_exit(1);
	_exit(traffic_child_main(child));
}

/* environment: NULL if the traffic is not in one. */
static void do_batches(struct figures *figures, size_t batches, struct traffic_child *child,
		       struct pg_host *host, const struct pg_environment *environment)
{
	for (size_t i = 0; i < batches; i++) {
		struct statistics before, after;

		read_statistics(&before);
		traffic_batch(child);
		read_statistics(&after);
		note(figures, &before, &after, child->traffic->count);
		if (environment && child->traffic->forget)
			forget_flows(host, environment);
	}
}

/* The guard of the veth, with the header of the Environment's first member; NULL: none. */
static void guard(const struct bench_options *options, struct pg_kernel *kernel,
		  const struct pg_environment *environment)
{
	pg_autoclose int here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	pg_autoclose int server = open(options->server, O_RDONLY | O_CLOEXEC);
	struct pg_header header;
	struct pg_error err = {0};
	unsigned int ifindex;
	int error;

	if (here < 0 || server < 0 || setns(server, CLONE_NEWNET))
		fail("entering the server's network namespace: %s", strerror(errno));
	ifindex = if_nametoindex(DEVICE);
	if (!environment) {
		error = pg_link_detach(ifindex, &err);
		pg_link_forget(kernel, ifindex);
	} else {
		error = pg_header_read(kernel, pg_environment_id(environment), &header, &err);
		if (!error)
			error = pg_link_put(kernel, ifindex, &header, 0, NULL, &err);
		if (!error)
			error = pg_link_attach(kernel, ifindex, &err);
	}
	if (error < 0)
		fail("%s", err.text);
	if (setns(here, CLONE_NEWNET))
		fail("returning from the server's network namespace: %s", strerror(errno));
}

static void own_address(struct pg_kernel *kernel, const struct pg_environment *environment)
{
	struct pg_error err = {0};
	struct pg_addr addr;

	if (pg_addr_parse(TRAFFIC_CLIENT4, &addr) < 0 ||
	    pg_own_add(kernel, pg_environment_id(environment), &addr, 0, &err) < 0)
		fail("%s", err.text);
}

static void measure(struct figures *figures, const struct traffic *traffic, enum variant variant,
		    const struct bench_options *options, struct machine *machine,
		    const struct confined confined[2])
{
	struct pg_environment *environment =
		variant == EMPTY ? NULL : confined[variant == LARGE].environment;
	struct pg_kernel *kernel = pg_host_kernel(machine->host);
	struct pg_inside inside = {.pid = -1};
	struct pg_error err = {0};
	struct traffic_child child;

	for (size_t i = 0; i < PROGRAMS_MAX; i++)
		figures->programs[i].ns = INFINITY;
	traffic_begin(&child, traffic);
	if (!environment)
		inside.pid = start_plain(machine, &child);
	else if (pg_environment_enter(environment, traffic_child_main, &child, &inside, &err) < 0)
		fail("%s", err.text);
	if (environment) {
		own_address(kernel, environment);
		guard(options, kernel, environment);
	}
	figures->missing = !traffic_ready(&child);
	if (!figures->missing)
		do_batches(figures, BATCHES * options->rounds, &child, machine->host, environment);
	traffic_end(&child);
	if (environment) {
		pg_environment_leave_inside(environment, &inside);
		guard(options, kernel, NULL);
		forget_flows(machine->host, environment);
	} else {
		waitpid(inside.pid, NULL, 0);
	}
	if (pg_host_process(machine->host, &err) < 0)
		fail("%s", err.text);
}

static void add_program(const char *name, int fd)
{
	if (program_count == PROGRAMS_MAX)
		fail("more programs than there is room for");
	programs[program_count++] = (struct program){name, fd};
}

/* Lets everything pass, as soon as it can. */
static void attach_empty(enum bpf_attach_type hook, int cgroup_fd)
{
	static const struct bpf_insn allow[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 1},
		{.code = BPF_JMP | BPF_EXIT},
	};
	LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = hook);
	const int fd = bpf_prog_load(BPF_PROG_TYPE_CGROUP_SKB, "empty", "GPL", allow,
				     PG_ARRAY_SIZE(allow), &options);

	if (fd < 0 || bpf_link_create(fd, cgroup_fd, hook, NULL) < 0)
		fail("attaching an empty program: %s", strerror(errno));
	add_program("empty", fd);
}

static void put(const struct traffic *traffic, const char *program, const char *column,
		const char *unit, double value)
{
	char row[2 * BENCH_NAME];

	if (!isfinite(value))
		return;
	snprintf(row, sizeof(row), "%s: %s", traffic->name, program);
	results_value(TABLE, row, column, unit, value);
}

static void put_all(const struct traffic *traffic, const struct figures figures[VARIANTS],
		    const char *const columns[VARIANTS])
{
	const struct figure *empty[] = {
		[PG_HOOK_EGRESS] = &figures[EMPTY].programs[program_count - 2],
		[PG_HOOK_INGRESS] = &figures[EMPTY].programs[program_count - 1],
	};

	if (figures[SMALL].missing)
		results_missing(TABLE, traffic->name, columns[SMALL], "no such socket here");
	for (size_t i = 0; i < program_count; i++) {
		const struct figure *small = &figures[SMALL].programs[i];

		if (!isfinite(small->ns))
			continue;
		put(traffic, programs[i].name, "runs", "", small->runs);
		put(traffic, programs[i].name, columns[SMALL], "ns", small->ns);
		put(traffic, programs[i].name, columns[LARGE], "ns", figures[LARGE].programs[i].ns);
		for (size_t hook = 0; hook < PG_ARRAY_SIZE(empty); hook++)
			if (!traffic->denied &&
			    !strcmp(programs[i].name, pg_hook_name((enum pg_hook)hook)))
				put(traffic, programs[i].name, columns[EMPTY], "ns",
				    empty[hook]->ns);
	}
}

static void add_programs(struct pg_kernel *kernel, int plain_cgroup)
{
	const struct bpf_object *const objects[] = {kernel->skeleton->obj, kernel->links->obj};
	struct bpf_program *program;

	for (size_t i = 0; i < PG_ARRAY_SIZE(objects); i++)
		bpf_object__for_each_program(program, objects[i]) if (bpf_program__fd(program) >= 0)
			add_program(bpf_program__name(program), bpf_program__fd(program));
	attach_empty(BPF_CGROUP_INET_EGRESS, plain_cgroup);
	attach_empty(BPF_CGROUP_INET_INGRESS, plain_cgroup);
}

void table_programs(const struct bench_options *options, struct machine *machine)
{
	struct pg_kernel *kernel = pg_host_kernel(machine->host);
	pg_autofree char *small = set_document(BENCH_SMALL);
	pg_autofree char *large = set_document(options->entries);
	pg_autoclose int statistics = bpf_enable_stats(BPF_STATS_RUN_TIME);
	struct confined confined[] = {
		[SMALL] = confined_create(machine->host, small),
		[LARGE] = confined_create(machine->host, large),
	};
	const char *columns[VARIANTS] = {"10 entries", "", "an empty program"};
	char many[BENCH_NAME];
	struct pg_error err = {0};

	if (statistics < 0)
		fail("statistics of BPF programs: %s", strerror(errno));
	if (pg_link_programs_load(kernel, &err) < 0)
		fail("%s", err.text);
	snprintf(many, sizeof(many), "%u entries", options->entries);
	columns[LARGE] = many;
	add_programs(kernel, machine->plain_cgroup);
	traffic_open(options->server, options->entries / 2);
	fprintf(stderr, "bench: programs\n");
	results_table(TABLE, "Programs", description);
	for (size_t i = 0; i < traffic_count; i++) {
		const size_t variants = traffics[i].denied ? EMPTY : VARIANTS;
		struct figures figures[VARIANTS] = {0};

		for (size_t variant = 0; variant < variants; variant++)
			measure(&figures[variant], &traffics[i], (enum variant)variant, options,
				machine, confined);
		put_all(&traffics[i], figures, columns);
	}
	for (size_t i = 0; i < PG_ARRAY_SIZE(confined); i++)
		confined_destroy(&confined[i]);
}
