/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same change with what others use for it, in the client's network namespace: an nftables
 * interval set loaded anew in one transaction; the rule that names it replaced by one that names
 * another that is there already; two sets of ipset swapped.
 */
#include "switching.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/clock.h"

#include "results.h"

/* They take thousands of times as long: one for so many of Phasegate's. */
#define SWITCHES_OF_ONE 50
#define CHANGES_MAX	200
/* For all changes of one kind; what takes longer than that is done CHANGES_MIN times. */
#define CHANGES_MS	2000
#define CHANGES_MIN	3
/* A set that takes minutes to load is not loaded: that is said in its place. */
#define LOADED_MAX	100000

/* Input of a program. */
struct script {
	char *text;
	size_t size;
	FILE *out;
};

static void script_begin(struct script *script)
{
	script->out = open_memstream(&script->text, &script->size);
	if (!script->out)
		fail("not enough memory for the input of a program");
}

/* A descriptor to read it from. */
static int script_end(struct script *script)
{
	const int fd = memfd_create("phasegate-bench", MFD_CLOEXEC);

	if (fclose(script->out) || fd < 0 ||
	    write(fd, script->text, script->size) != (ssize_t)script->size)
		fail("the input of a program: %s", strerror(errno));
	free(script->text);
	return fd;
}

/* Element i: single addresses and ranges by turns, none of them neighbours, as entries have them.
 */
static void put_element(FILE *out, size_t i, const char *separator)
{
	char text[BENCH_NAME];

	/* Of the mixture the IPv4 part only: three of four. */
	set_entry(i / 3 * 4 + i % 3, text);
	fprintf(out, "%s%s", text, separator);
}

/* Runs the program, found by PATH, to its end; input -1: none. Microseconds. */
static double run_us(char *const *argv, int input)
{
	posix_spawn_file_actions_t actions;
	uint64_t started;
	int error, status;
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	if (input >= 0) {
		lseek(input, 0, SEEK_SET);
		posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
	}
	started = pg_monotonic_ns();
	error = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
	if (error)
		fail("%s: %s", argv[0], strerror(error));
	if (waitpid(pid, &status, 0) < 0 || status)
		fail("%s failed", argv[0]);
	posix_spawn_file_actions_destroy(&actions);
	return (double)(pg_monotonic_ns() - started) / PG_NSEC_PER_USEC;
}

static double nft_us(int input)
{
	char name[] = "nft", file[] = "-f", standard[] = "-";
	char *const argv[] = {name, file, standard, NULL};

	return run_us(argv, input);
}

static double ipset_us(int input)
{
	char name[] = "ipset", restore[] = "restore";
	char *const argv[] = {name, restore, NULL};

	return run_us(argv, input);
}

static bool have(const char *program, const char *option)
{
	char command[128];

	snprintf(command, sizeof(command), "%s %s >/dev/null 2>&1", program, option);
	return system(command) == 0; /* NOLINT(cert-env33-c): both are constants */
}

static void put_set(FILE *out, const char *name, size_t entries)
{
	fprintf(out,
		"add set inet pgbench %s { type ipv4_addr; flags interval; }\n"
		"add element inet pgbench %s { %s",
		name, name, BENCH_TARGET4);
	for (size_t i = 0; i + 1 < entries; i++) {
		fputc(',', out);
		put_element(out, i, "");
	}
	fputs("}\n", out);
}

static int nft_table(size_t entries)
{
	struct script script;

	script_begin(&script);
	fputs("add table inet pgbench\n", script.out);
	put_set(script.out, "a", entries);
	put_set(script.out, "b", BENCH_SMALL);
	fputs("add chain inet pgbench out { type filter hook output priority 0; policy drop; }\n"
	      "add rule inet pgbench out ip daddr @a accept\n",
	      script.out);
	return script_end(&script);
}

static int nft_reload(size_t entries)
{
	struct script script;

	script_begin(&script);
	fputs("flush set inet pgbench a\n", script.out);
	put_set(script.out, "a", entries);
	return script_end(&script);
}

static int nft_rule(const char *set)
{
	struct script script;

	script_begin(&script);
	fprintf(script.out,
		"flush chain inet pgbench out\nadd rule inet pgbench out ip daddr @%s accept\n",
		set);
	return script_end(&script);
}

static int nft_delete(void)
{
	struct script script;

	script_begin(&script);
	fputs("delete table inet pgbench\n", script.out);
	return script_end(&script);
}

static int ipset_sets(size_t entries)
{
	const char *const names[] = {"pgbench-a", "pgbench-b"};
	struct script script;

	script_begin(&script);
	for (size_t i = 0; i < PG_ARRAY_SIZE(names); i++) {
		const size_t count = i ? BENCH_SMALL : entries;

		fprintf(script.out,
			"create %s hash:net maxelem 2000000 hashsize 65536\nadd %s %s\n", names[i],
			names[i], BENCH_TARGET4);
		for (size_t k = 0; k + 1 < count; k++) {
			fprintf(script.out, "add %s ", names[i]);
			put_element(script.out, k, "\n");
		}
	}
	return script_end(&script);
}

static int ipset_line(const char *line)
{
	struct script script;

	script_begin(&script);
	fprintf(script.out, "%s\n", line);
	return script_end(&script);
}

/* Changes by turns with the two inputs, under load, until there are enough. */
static void put_changes(const struct bench_options *options, const struct machine *machine,
			const char *row, double (*change)(int input), const int inputs[2])
{
	struct flooding *flooding = flooding_start(options, machine->plain_cgroup, false);
	const uint64_t started = pg_monotonic_ns();
	const size_t wanted = options->switches / SWITCHES_OF_ONE,
		     most = wanted < CHANGES_MAX ? wanted : CHANGES_MAX;
	double took[CHANGES_MAX];
	size_t count = 0;

	while (count < CHANGES_MIN ||
	       (count < most && pg_monotonic_ns() - started < CHANGES_MS * PG_NSEC_PER_MSEC)) {
		took[count] = change(inputs[count % 2]);
		count++;
	}
	flooding_end(flooding, NULL, 0);
	switching_put(row, "whole call", took, count);
}

static void put_nft(const struct bench_options *options, const struct machine *machine,
		    size_t entries)
{
	pg_autoclose int table = nft_table(entries), reload = nft_reload(entries),
			 first = nft_rule("b"), second = nft_rule("a"), end = nft_delete();
	char row[96];

	nft_us(table);
	snprintf(row, sizeof(row), "nft -f, set of %zu entries anew, UDP flood", entries);
	put_changes(options, machine, row, nft_us, (const int[]){reload, reload});
	snprintf(row, sizeof(row), "nft -f, rule to another set, %zu entries, UDP flood", entries);
	put_changes(options, machine, row, nft_us, (const int[]){first, second});
	nft_us(end);
}

static void run_iptables(const char *action)
{
	char name[] = "iptables", verb[3], chain[] = "OUTPUT", match[] = "-m", set[] = "set";
	char not [] = "!", sets[] = "--match-set", of[] = "pgbench-a", by[] = "dst", jump[] = "-j",
		 drop[] = "DROP";
	char *const argv[] = {name, verb, chain, match, set, not, sets, of, by, jump, drop, NULL};

	snprintf(verb, sizeof(verb), "%s", action);
	run_us(argv, -1);
}

static void put_ipset(const struct bench_options *options, const struct machine *machine,
		      size_t entries)
{
	pg_autoclose int sets = ipset_sets(entries), swap = ipset_line("swap pgbench-a pgbench-b"),
			 first = ipset_line("destroy pgbench-a"),
			 second = ipset_line("destroy pgbench-b");
	char row[96];

	ipset_us(sets);
	run_iptables("-A");
	snprintf(row, sizeof(row), "ipset swap, %zu entries, UDP flood", entries);
	put_changes(options, machine, row, ipset_us, (const int[]){swap, swap});
	run_iptables("-D");
	ipset_us(first);
	ipset_us(second);
}

void switching_contenders(const struct bench_options *options, const struct machine *machine)
{
	const size_t most = options->entries < LOADED_MAX ? options->entries : LOADED_MAX;
	const bool nft = have("nft", "--version"), ipset = have("ipset", "version");

	fprintf(stderr, "bench: switches of others\n");
	for (size_t i = 0; i < 2; i++) {
		const size_t entries = i ? most : BENCH_SMALL;

		if (nft)
			put_nft(options, machine, entries);
		if (ipset)
			put_ipset(options, machine, entries);
	}
	if (!nft)
		results_missing(SWITCHING_TABLE, "nft -f", "whole call, median",
				"nft is not installed");
	if (!ipset)
		results_missing(SWITCHING_TABLE, "ipset swap", "whole call, median",
				"ipset is not installed");
}
