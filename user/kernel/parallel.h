/* SPDX-License-Identifier: Apache-2.0 */
/* Work of which most is waiting in the kernel, all of it at once. Private to this folder. */
#pragma once

#include <stddef.h>

#define PG_PARALLEL_MAX 8

/*
 * Calls work(userdata, 0) to work(userdata, count - 1), count at most PG_PARALLEL_MAX, each in a
 * thread of its own as far as threads can be had, and returns when all have returned. The threads
 * take no signals.
 */
void pg_parallel(size_t count, void (*work)(void *userdata, size_t number), void *userdata);
