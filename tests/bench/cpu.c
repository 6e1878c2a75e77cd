/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

#include <sched.h>

static void pin(size_t cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

void pin_first(void)
{
	pin(0);
}

void pin_last(void)
{
	const long count = sysconf(_SC_NPROCESSORS_ONLN);

	pin((size_t)(count > 0 ? count - 1 : 0));
}
