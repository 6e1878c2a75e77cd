/* SPDX-License-Identifier: Apache-2.0 */
/*
 * No program grows by the way: what the verifier looks at when it is loaded (every start pays for
 * that, and it has a limit), and its size, against the list in the file budgets. One that needs
 * more gets it there, in the same change. PHASEGATE_BUDGETS=write writes the list anew.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <exec.skel.h>
#include <guard.skel.h>
#include <links.skel.h>
#include <phasegate.skel.h>

#include "check.h"

#define ALLOWED_PERCENT 120
#define PROGRAMS_MAX	64

/* X(member, text). The order is that of the columns. */
#define FIGURES(X) \
	X(verified, "instructions that the verifier looks at") \
	X(translated, "octets of instructions") \
	X(jited, "octets of machine code")

struct budget {
	char name[64];
#define X(member, text) uint32_t member;
	FIGURES(X)
#undef X
};

struct budgets {
	struct budget items[PROGRAMS_MAX];
	size_t count;
};

static const char heading[] =
	"# What the BPF programs may take, without the fifth that each may grow by: program,\n"
	"# instructions that the verifier looks at (Linux 6.18), octets of instructions (clang "
	"14),\n"
	"# octets of machine code (x86-64). Written by: PHASEGATE_BUDGETS=write "
	"tests/bpf_budgets\n";

static struct budget *find(struct budgets *budgets, const char *name)
{
	for (size_t i = 0; i < budgets->count; i++)
		if (!strcmp(budgets->items[i].name, name))
			return &budgets->items[i];
	return NULL;
}

static struct budget *add(struct budgets *budgets)
{
	if (budgets->count == PROGRAMS_MAX) {
		fprintf(stderr, "more than %d programs\n", PROGRAMS_MAX);
		exit(EXIT_FAILURE);
	}
	return &budgets->items[budgets->count++];
}

static void measure(struct budgets *measured, const struct bpf_object *object)
{
	struct bpf_program *program;

	bpf_object__for_each_program(program, object)
	{
		struct budget *budget = add(measured);
		struct bpf_prog_info info = {};
		__u32 size = sizeof(info);

		if (bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &size)) {
			perror(bpf_program__name(program));
			exit(EXIT_FAILURE);
		}
		snprintf(budget->name, sizeof(budget->name), "%s", bpf_program__name(program));
		budget->verified = info.verified_insns;
		budget->translated = info.xlated_prog_len;
		budget->jited = info.jited_prog_len;
	}
}

/* Every start loads these, and does not have to find anything in the kernel's own types for that,
 * of which here are none. */
static struct phasegate_bpf *load_hooks(void)
{
	LIBBPF_OPTS(bpf_object_open_opts, options, .btf_custom_path = "/dev/null");
	struct phasegate_bpf *hooks = phasegate_bpf__open_opts(&options);

	return hooks && !phasegate_bpf__load(hooks) ? hooks : NULL;
}

static void measure_all(struct budgets *measured)
{
	struct phasegate_bpf *phasegate = load_hooks();
	struct links_bpf *links = links_bpf__open_and_load();
	struct guard_bpf *guard = guard_bpf__open_and_load();
	struct exec_bpf *exec = exec_bpf__open_and_load();

	if (!phasegate || !links || !guard || !exec) {
		perror("loading the programs");
		exit(EXIT_FAILURE);
	}
	measure(measured, phasegate->obj);
	measure(measured, links->obj);
	measure(measured, guard->obj);
	measure(measured, exec->obj);
	phasegate_bpf__destroy(phasegate);
	links_bpf__destroy(links);
	guard_bpf__destroy(guard);
	exec_bpf__destroy(exec);
}

static void read_list(struct budgets *list)
{
	FILE *file = fopen(PG_BUDGETS, "re");
	char line[256];

	if (!file) {
		perror(PG_BUDGETS);
		exit(EXIT_FAILURE);
	}
	while (fgets(line, sizeof(line), file)) {
		struct budget budget;

		if (line[0] == '#')
			continue;
		if (sscanf(line, "%63s %" SCNu32 " %" SCNu32 " %" SCNu32, budget.name,
			   &budget.verified, &budget.translated, &budget.jited) != 4) {
			fprintf(stderr, "%s: not a budget: %s", PG_BUDGETS, line);
			exit(EXIT_FAILURE);
		}
		*add(list) = budget;
	}
	fclose(file);
}

static void write_list(const struct budgets *measured)
{
	FILE *file = fopen(PG_BUDGETS, "we");

	if (file)
		fputs(heading, file);
	for (size_t i = 0; file && i < measured->count; i++)
		fprintf(file, "%-17s %6" PRIu32 " %6" PRIu32 " %6" PRIu32 "\n",
			measured->items[i].name, measured->items[i].verified,
			measured->items[i].translated, measured->items[i].jited);
	if (!file || fclose(file)) {
		perror(PG_BUDGETS);
		exit(EXIT_FAILURE);
	}
}

/* What the kernel does not tell, or has not compiled, is 0. */
static void compare(struct check *check, const char *name, const char *what, uint32_t takes,
		    uint32_t budget)
{
	CHECK(check, (uint64_t)takes * 100 <= (uint64_t)budget * ALLOWED_PERCENT,
	      "%s: %u %s, and its budget is %u: make it smaller, or say in the same change why it"
	      " needs more and write the budgets anew (PHASEGATE_BUDGETS=write)",
	      name, takes, what, budget);
}

int main(void)
{
	const char *mode = getenv("PHASEGATE_BUDGETS");
	static struct budgets measured, list;
	struct check check = {};

	if (geteuid()) {
		printf("1..0 # SKIP loading programs needs root\n");
		return CHECK_SKIPPED;
	}
	measure_all(&measured);
	if (mode && !strcmp(mode, "write"))
		write_list(&measured);
	read_list(&list);
	for (size_t i = 0; i < measured.count; i++) {
		const struct budget *takes = &measured.items[i];
		const struct budget *budget = find(&list, takes->name);

		if (!CHECK(&check, budget, "%s has no budget in %s (PHASEGATE_BUDGETS=write)",
			   takes->name, PG_BUDGETS))
			continue;
#define X(member, text) compare(&check, takes->name, text, takes->member, budget->member);
		FIGURES(X)
#undef X
	}
	check_group(&check, "what programs take");
	for (size_t i = 0; i < list.count; i++)
		CHECK(&check, find(&measured, list.items[i].name),
		      "%s has a budget, and there is no such program (PHASEGATE_BUDGETS=write)",
		      list.items[i].name);
	check_group(&check, "programs that have a budget");
	return check_end(&check);
}
