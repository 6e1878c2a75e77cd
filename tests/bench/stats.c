/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

static int compare(const void *a, const void *b)
{
	const double first = *(const double *)a, second = *(const double *)b;

	return (first > second) - (first < second);
}

double percentile_of(const double *values, size_t count, double part)
{
	const double place = part * (double)(count - 1);
	const size_t below = (size_t)place;

	if (below + 1 >= count)
		return values[count - 1];
	return values[below] + (values[below + 1] - values[below]) * (place - (double)below);
}

struct quartiles quartiles_of(double *values, size_t count)
{
	qsort(values, count, sizeof(*values), compare);
	return (struct quartiles){
		.low = percentile_of(values, count, 0.25),
		.median = percentile_of(values, count, 0.5),
		.high = percentile_of(values, count, 0.75),
	};
}
