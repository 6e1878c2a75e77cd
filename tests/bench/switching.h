/* SPDX-License-Identifier: Apache-2.0 */
/* Switches between two sets of destinations while packets are sent: of Phasegate and of others. */
#pragma once

#include <stddef.h>

#include "bench.h"

#define SWITCHING_TABLE "switches"

/*
 * A flood of UDP from a cgroup to the benchmark's target; with a witness, every other packet goes
 * to SWITCHING_WITNESS, which only one of the two sets has, with the time at which it was sent.
 */
#define SWITCHING_WITNESS "10.255.255.1"
struct flooding;
struct flooding *flooding_start(const struct bench_options *options, int cgroup, bool witness);
/* What has been sent until now. */
uint64_t flooding_sent(const struct flooding *flooding);

/* A switch: in between, and to which set. All times are of CLOCK_REALTIME. */
struct change {
	uint64_t began_ns, returned_ns;
	bool allowed; /* the witness is allowed from then on */
};
struct judgement {
	size_t arrived; /* packets to the witness */
	size_t wrong;	/* of them sent after a switch had returned that forbids them */
	size_t lost;	/* not seen for lack of room */
};
/* Ends the flood and judges what has arrived. Changes may be none. */
struct judgement flooding_end(struct flooding *flooding, const struct change *changes,
			      size_t count);

/* Median, p99 and worst of the times, which are sorted, as three columns. */
void switching_put(const char *row, const char *what, double *took_us, size_t count);

/* ---- switching_agent.c */
void switching_agent(const struct bench_options *options, const struct machine *machine,
		     const char *document);

/* ---- contenders_switching.c */
void switching_contenders(const struct bench_options *options, const struct machine *machine);
