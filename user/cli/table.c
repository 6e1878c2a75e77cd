/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "agent_command.h"

#define COLUMNS_MAX 12
#define GAP	    2

void pg_table_add(struct pg_table *table, char *cell)
{
	char **cells = reallocarray(table->cells, table->count + 1, sizeof(*cells));

	if (cells)
		table->cells = cells;
	if (!cells || !cell) {
		table->failed = true;
		free(cell);
		return;
	}
	cells[table->count++] = cell;
}

void pg_table_add_text(struct pg_table *table, const char *text)
{
	pg_table_add(table, strdup(text));
}

/* Octets for columns, which is right for names: they are ASCII. */
static void measure(const struct pg_table *table, int *widths)
{
	for (size_t i = 0; i < table->count; i++) {
		const int width = (int)strlen(table->cells[i]);
		int *widest = &widths[i % table->columns];

		*widest = width > *widest ? width : *widest;
	}
}

void pg_table_print(struct pg_table *table, FILE *out)
{
	int widths[COLUMNS_MAX] = {0};

	if (table->failed)
		fputs("phasegate: not enough memory to print a table\n", stderr);
	else
		measure(table, widths);
	for (size_t i = 0; i < table->count; i++) {
		const size_t column = i % table->columns;

		if (table->failed)
			; /* only freed */
		else if (column + 1 == table->columns)
			fprintf(out, "%s\n", table->cells[i]);
		else
			fprintf(out, "%-*s", widths[column] + GAP, table->cells[i]);
		free(table->cells[i]);
	}
	free(table->cells);
	*table = (struct pg_table){.columns = table->columns};
}
