/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule.h"

#include <errno.h>
#include <stdlib.h>

int pg_schedule_init(struct pg_schedule *schedule, size_t capacity)
{
	struct pg_due *heap = NULL;

	if (capacity > 0) {
		heap = reallocarray(NULL, capacity, sizeof(*heap));
		if (!heap)
			return -ENOMEM;
	}
	*schedule = (struct pg_schedule){.heap = heap, .capacity = capacity};
	return 0;
}

void pg_schedule_clear(struct pg_schedule *schedule)
{
	free(schedule->heap);
	*schedule = (struct pg_schedule){0};
}

void pg_schedule_add(struct pg_schedule *schedule, size_t name, uint64_t when)
{
	struct pg_due *heap = schedule->heap;
	size_t at = schedule->count++;

	while (at > 0) {
		size_t parent = (at - 1) / 2;

		if (heap[parent].when <= when)
			break;
		heap[at] = heap[parent];
		at = parent;
	}
	heap[at] = (struct pg_due){.when = when, .name = name};
}

uint64_t pg_schedule_next(const struct pg_schedule *schedule)
{
	return schedule->count > 0 ? schedule->heap[0].when : UINT64_MAX;
}

size_t pg_schedule_take(struct pg_schedule *schedule)
{
	struct pg_due *heap = schedule->heap;
	size_t name = heap[0].name, at = 0;
	struct pg_due last = heap[--schedule->count];

	for (;;) {
		size_t child = 2 * at + 1;

		if (child >= schedule->count)
			break;
		if (child + 1 < schedule->count && heap[child + 1].when < heap[child].when)
			child++;
		if (last.when <= heap[child].when)
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = last;
	return name;
}
