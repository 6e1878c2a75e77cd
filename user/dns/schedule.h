/* SPDX-License-Identifier: Apache-2.0 */
/* Which name is due next: a binary heap of name indexes by time, for 100,000 names and more. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct pg_due {
	uint64_t when; /* CLOCK_BOOTTIME, ns */
	size_t name;
};

struct pg_schedule {
	struct pg_due *heap;
	size_t count, capacity;
};

/* Holds at most capacity names. -ENOMEM. */
int pg_schedule_init(struct pg_schedule *schedule, size_t capacity) PG_MUST_CHECK;
void pg_schedule_clear(struct pg_schedule *schedule);

/* The name must not be in the schedule, so there is always room. */
void pg_schedule_add(struct pg_schedule *schedule, size_t name, uint64_t when);

/* When the first name is due; UINT64_MAX if there is none. */
uint64_t pg_schedule_next(const struct pg_schedule *schedule);

/* Takes the first name out; there must be one. */
size_t pg_schedule_take(struct pg_schedule *schedule);
