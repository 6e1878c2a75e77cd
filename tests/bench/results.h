/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is measured, as JSON lines: report.py takes the median of whole runs, and renders tables
 * and plots. Rows and columns appear in the order of their first cells.
 */
#pragma once

#include <stddef.h>

struct quartiles {
	double low, median, high;
};

/* To standard output, or to a file besides. */
void results_open(const char *path);
void results_close(void);

/* Of the machine, as they are at the start. */
void results_machine(const char *what, const char *value);
/* Before its first cell; text is a paragraph of Markdown. */
void results_table(const char *table, const char *title, const char *text);
void results_cell(const char *table, const char *row, const char *column, const char *unit,
		  struct quartiles value);
void results_value(const char *table, const char *row, const char *column, const char *unit,
		   double value);
/* In place of a cell: what the machine lacks for it. */
void results_missing(const char *table, const char *row, const char *column, const char *why);
