// SPDX-License-Identifier: Apache-2.0
/*
 * docs/verdicts.md against abi/reason.h: the rows "| N | `reason` | verdict | ..." are all reasons,
 * each once, in the order of the list, with its verdict.
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

int main(void)
{
	char line[1024], name[64], verdict[64];
	struct check check = {};
	unsigned int row = 0, number;
	FILE *file = fopen(PG_VERDICTS, "re");

	if (!file) {
		perror(PG_VERDICTS);
		return EXIT_FAILURE;
	}
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "| %u | `%63[^`]` | %63[a-z] |", &number, name, verdict) != 3)
			continue;
		if (!CHECK(&check, row < PG_REASON_COUNT, "a row too many: %s", line))
			break;
		CHECK(&check, reasons[row].value == row, "value %u in row %u", reasons[row].value,
		      row);
		CHECK(&check, !strcmp(name, reasons[row].name), "row %u: %s instead of %s", row,
		      name, reasons[row].name);
		CHECK(&check, !strcmp(verdict, reasons[row].verdict == PG_ALLOW ? "allow" : "deny"),
		      "row %u: %s is %s", row, name, verdict);
		CHECK(&check, pg_reason_verdict(reasons[row].value) == reasons[row].verdict,
		      "the mask on %s", name);
		row++;
	}
	fclose(file);
	CHECK(&check, row == PG_REASON_COUNT, "%u rows of %d", row, PG_REASON_COUNT);
	check_group(&check, "docs/verdicts.md has every reason in its place");
	return check_end(&check);
}
