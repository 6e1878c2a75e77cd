/* SPDX-License-Identifier: Apache-2.0 */
#include "contenders.h"

#include <string.h>
#include <unistd.h>

#define ALL	  SIZE_MAX /* entries: of the large set */
#define SIZES	  8
#define LINEAR	  1000
#define NO_REASON "it was not set up"

static const struct contender table[] = {
	{.label = "no policy"},
	{.label = "empty programs", .kind = CONTENDER_EMPTY},
	{.label = "Phasegate", .kind = CONTENDER_CONFINED, .entries = BENCH_SMALL},
	{.label = "Phasegate", .kind = CONTENDER_CONFINED, .entries = 1000},
	{.label = "Phasegate", .kind = CONTENDER_CONFINED, .entries = 100000},
	{.label = "Phasegate", .kind = CONTENDER_CONFINED, .entries = ALL},
	{.label = "empty programs, veth too",
	 .kind = CONTENDER_EMPTY,
	 .space = "veth-empty",
	 .guarded = true},
	{.label = "Phasegate with veth guard",
	 .kind = CONTENDER_CONFINED,
	 .entries = BENCH_SMALL,
	 .space = "veth-small",
	 .guarded = true},
	{.label = "Phasegate with veth guard",
	 .kind = CONTENDER_CONFINED,
	 .entries = ALL,
	 .space = "veth-large",
	 .guarded = true},
	{.label = "nftables set", .entries = ALL, .space = "nft"},
	{.label = "nftables set, established first", .entries = ALL, .space = "nft-ct"},
	{.label = "ipset", .entries = ALL, .space = "ipset"},
	{.label = "iptables, linear", .entries = LINEAR, .space = "iptables"},
	{.label = "squid", .entries = BENCH_SMALL, .proxy = true},
	{.label = "tinyproxy", .entries = BENCH_SMALL, .proxy = true},
};

/* Those that measure the same set share its Environment. */
static struct {
	size_t entries;
	struct confined confined;
} sets[SIZES];
static size_t set_count;
static int empty_cgroup = -1;

static struct pg_environment *environment_of(size_t entries, const struct machine *machine)
{
	pg_autofree char *document = NULL;

	for (size_t i = 0; i < set_count; i++)
		if (sets[i].entries == entries)
			return sets[i].confined.environment;
	if (set_count == SIZES)
		fail("more sizes than there is room for");
	document = set_document(entries);
	sets[set_count].entries = entries;
	sets[set_count].confined = confined_create(machine->host, document);
	return sets[set_count++].confined.environment;
}

/* "1,000,000" */
static void grouped(size_t number, char *text, size_t size)
{
	if (number >= 1000000)
		snprintf(text, size, "%zu,%03zu,%03zu", number / 1000000, number / 1000 % 1000,
			 number % 1000);
	else if (number >= 1000)
		snprintf(text, size, "%zu,%03zu", number / 1000, number % 1000);
	else
		snprintf(text, size, "%zu", number);
}

/* What is known of the name in the list, "NAME: REASON" a line. */
static void missing(struct contender *contender, const char *name, const char *list)
{
	const size_t length = strlen(name);

	snprintf(contender->missing, sizeof(contender->missing), NO_REASON);
	for (const char *line = list; line && *line;
	     line += strcspn(line, "\n"), line += *line == '\n')
		if (!strncmp(line, name, length) && !strncmp(line + length, ": ", 2))
			snprintf(contender->missing, sizeof(contender->missing), "%.*s",
				 (int)strcspn(line + length + 2, "\n"), line + length + 2);
}

static void find_space(struct contender *contender, const struct bench_options *options)
{
	if (!contender->space)
		contender->space = "plain";
	snprintf(contender->path, sizeof(contender->path), "/run/netns/%s-%s", options->name,
		 contender->space);
	if (access(contender->path, F_OK) < 0)
		missing(contender, contender->space, options->lacks);
}

static void find_proxy(struct contender *contender, const struct bench_options *options)
{
	const bool squid = !strcmp(contender->label, "squid");

	if (!contender->proxy)
		return;
	contender->site.proxy_port = squid ? BENCH_PORT_SQUID : BENCH_PORT_TINYPROXY;
	contender->site.proxy = (pid_t)(squid ? options->squid : options->tinyproxy);
	if (!contender->site.proxy)
		missing(contender, contender->label, options->lacks);
}

static void open_one(struct contender *contender, const struct bench_options *options,
		     const struct machine *machine)
{
	find_space(contender, options);
	find_proxy(contender, options);
	if (contender->missing[0])
		return;
	contender->site.host = machine->host;
	contender->site.plain_cgroup = machine->plain_cgroup;
	contender->site.namespace = contender->path;
	switch (contender->kind) {
	case CONTENDER_PLAIN:
		break;
	case CONTENDER_EMPTY:
		if (empty_cgroup < 0)
			empty_cgroup = empty_cgroup_open(machine);
		contender->site.plain_cgroup = empty_cgroup;
		break;
	case CONTENDER_CONFINED:
		contender->site.environment = environment_of(contender->entries, machine);
		guard_own(contender, machine);
		break;
	}
	if (contender->guarded)
		guard_attach(contender, options, machine);
}

static void name(struct contender *contender)
{
	char entries[32];

	if (contender->entries)
		grouped(contender->entries, entries, sizeof(entries));
	snprintf(contender->name, sizeof(contender->name), "%s%s%s%s", contender->label,
		 contender->entries ? ", " : "", contender->entries ? entries : "",
		 contender->entries ? " entries" : "");
}

size_t contenders_open(struct contender contenders[static CONTENDERS_MAX],
		       const struct bench_options *options, const struct machine *machine)
{
	size_t count = 0;

	for (size_t i = 0; i < PG_ARRAY_SIZE(table); i++) {
		struct contender *contender = &contenders[count];
		const bool all = table[i].entries == ALL;

		/* With a small --entries, sizes in between are none. */
		if (table[i].kind == CONTENDER_CONFINED && !all &&
		    table[i].entries >= options->entries)
			continue;
		*contender = table[i];
		if (all)
			contender->entries = options->entries;
		name(contender);
		open_one(contender, options, machine);
		count++;
	}
	return count;
}

void contenders_close(const struct machine *machine)
{
	for (size_t i = 0; i < set_count; i++)
		confined_destroy(&sets[i].confined);
	set_count = 0;
	if (empty_cgroup >= 0)
		empty_cgroup_close(machine, empty_cgroup);
	empty_cgroup = -1;
}
