// SPDX-License-Identifier: Apache-2.0
/*
 * docs/verdicts.md against abi/reason.h: the rows "| N | `reason` | verdict | ..." are all reasons,
 * each once, with its verdict. Their order is that of judgement, which test_decide_order.c checks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <phasegate/abi/reason.h>

#include "check.h"

static const struct {
	const char *name;
	unsigned int value;
	enum pg_verdict verdict;
} reasons[] = {
#define PG_X(symbol, value, verdict, name, text) {name, value, verdict},
	PG_REASONS(PG_X)
#undef PG_X
};

static unsigned int find(const char *name)
{
	unsigned int i = 0;

	while (i < PG_REASON_COUNT && strcmp(name, reasons[i].name) != 0)
		i++;
	return i;
}

int main(void)
{
	unsigned int rows[PG_REASON_COUNT] = {}, number;
	char line[1024], name[64], verdict[64];
	struct check check = {};
	FILE *file = fopen(PG_VERDICTS, "re");

	if (!file) {
		perror(PG_VERDICTS);
		return EXIT_FAILURE;
	}
	while (fgets(line, sizeof(line), file)) {
		unsigned int i;

		if (sscanf(line, "| %u | `%63[^`]` | %63[a-z] |", &number, name, verdict) != 3)
			continue;
		i = find(name);
		if (!CHECK(&check, i < PG_REASON_COUNT, "no reason: %s", line))
			continue;
		rows[i]++;
		CHECK(&check, !strcmp(verdict, reasons[i].verdict == PG_ALLOW ? "allow" : "deny"),
		      "%s is %s", name, verdict);
	}
	fclose(file);
	for (unsigned int i = 0; i < PG_REASON_COUNT; i++) {
		CHECK(&check, reasons[i].value == i, "value %u in place %u", reasons[i].value, i);
		CHECK(&check, rows[i] == 1, "%s has %u rows", reasons[i].name, rows[i]);
		CHECK(&check, pg_reason_verdict(reasons[i].value) == reasons[i].verdict,
		      "the mask on %s", reasons[i].name);
	}
	check_group(&check, "docs/verdicts.md has every reason once");
	return check_end(&check);
}
