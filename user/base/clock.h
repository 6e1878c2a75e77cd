/* SPDX-License-Identifier: Apache-2.0 */
/* Time as 64-bit nanoseconds. */
#pragma once

#include <stdint.h>
#include <time.h>

#define PG_NSEC_PER_SEC	 1000000000ULL
#define PG_NSEC_PER_MSEC 1000000ULL
#define PG_NSEC_PER_USEC 1000ULL

static inline uint64_t pg_clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * PG_NSEC_PER_SEC + (uint64_t)now.tv_nsec;
}

/* For durations. */
static inline uint64_t pg_monotonic_ns(void)
{
	return pg_clock_ns(CLOCK_MONOTONIC);
}

/* For times that BPF programs compare (bpf_ktime_get_boot_ns). */
static inline uint64_t pg_boottime_ns(void)
{
	return pg_clock_ns(CLOCK_BOOTTIME);
}
