/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The figures, one JSON object a line: what whole runs are merged from, and all tables are printed
 * from. {"table", "row", "column"} names a figure, the same in every run.
 */
#pragma once

#include <stddef.h>
#include <stdio.h>

struct result {
	const char *table, *row, *column;
	const char *unit;	 /* "us", "ratio" and the like */
	double low, value, high; /* quartiles and median; low and high alike: no spread is known */
	size_t count;		 /* of what value is the median; 0: not a median */
};

/* The heading of a table, before its figures: what was measured, in Markdown. */
void result_table(FILE *out, const char *table, const char *title, const char *text);
void result_put(FILE *out, const struct result *result);
/* Median and quartiles of the values, which are sorted in place. */
void result_put_values(FILE *out, const struct result *result, double *values, size_t count);
