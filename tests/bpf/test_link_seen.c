// SPDX-License-Identifier: Apache-2.0
/*
 * What comes in by a veth is recorded, but not again a moment later (struct pg_link_seen): when it
 * is not, and what of it has to be each time. The table is emptied in between, so that what is
 * recorded again is seen. A place may be over before the next frame, so such a row is tried again.
 */
#include <netinet/in.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <phasegate/abi/flow.h>

#include "base/clock.h"
#include "kernel/kernel_internal.h"
#include "link_frames.h"

#define TRIES	    20
/* Of one network, next to each other, as containers' addresses are. */
#define NEIGHBOURS  50
#define BEHIND	    150
#define PATIENCE_NS 3000000000ULL

/* What comes first, and whether what comes next is recorded. */
static const struct row {
	const char *what;
	struct frame first, next;
	bool asked, recorded, switched;
} rows[] = {
	{.what = "the same segment", .asked = true},
	{.what = "the same of IPv6", .asked = true, .first.v6 = true, .next.v6 = true},
	{.what = "of another connection", .asked = true, .next = {.port = 1, .flags = SYN | ACK}},
	{.what = "to another local address", .asked = true, .next.other_local = true},
	{.what = "from another station", .asked = true, .next.station = 1, .recorded = true},
	{.what = "what opens one", .asked = true, .next.flags = SYN, .recorded = true},
	{.what = "after a switch", .asked = true, .switched = true, .recorded = true},
	{.what = "a datagram after segments",
	 .asked = true,
	 .next.datagram = true,
	 .recorded = true},
	{.what = "a segment of who was not asked", .recorded = true},
	{.what = "the same datagram", .first.datagram = true, .next.datagram = true},
	{.what = "the same datagram of IPv6",
	 .first = {.datagram = true, .v6 = true},
	 .next = {.datagram = true, .v6 = true}},
	{.what = "a datagram of another port",
	 .first.datagram = true,
	 .next = {.datagram = true, .port = 1},
	 .recorded = true},
	{.what = "a datagram to another local address",
	 .first.datagram = true,
	 .next = {.datagram = true, .other_local = true},
	 .recorded = true},
	{.what = "a datagram after a switch",
	 .first.datagram = true,
	 .next.datagram = true,
	 .switched = true,
	 .recorded = true},
};

static bool is_recorded(struct bench *bench, const struct row *row)
{
	empty_table(bench, row->asked);
	switch_to(bench, PG_PHASE_SETUP);
	come(bench, &row->first);
	CHECK(&bench->check, has_peer(bench, &row->first), "%s: the first is not recorded",
	      row->what);
	empty_table(bench, row->asked);
	if (row->switched)
		switch_to(bench, PG_PHASE_RUN);
	come(bench, &row->next);
	return has_peer(bench, &row->next);
}

static void check_rows(struct bench *bench)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *row = &rows[i];
		bool recorded = is_recorded(bench, row);

		for (int tries = 1; recorded != row->recorded && tries < TRIES; tries++)
			recorded = is_recorded(bench, row);
		CHECK(&bench->check, recorded == row->recorded, "%s: %s", row->what,
		      recorded ? "recorded" : "not recorded");
	}
}

/* The number that a segment acknowledges, of who was not asked: each time, until it is known who
 * opened the connection; and of one that is opened again. */
static void check_numbers(struct bench *bench)
{
	bool recorded = true;

	empty_table(bench, false);
	switch_to(bench, PG_PHASE_SETUP);
	for (uint32_t i = 0; i < 3; i++) {
		come(bench, &(struct frame){.number = i});
		CHECK(&bench->check, has_number(bench, i), "number %u is not recorded", i);
	}
	for (int tries = 0; recorded && tries < TRIES; tries++) {
		empty_table(bench, false);
		switch_to(bench, PG_PHASE_SETUP);
		come(bench, &(struct frame){.flags = SYN});
		come(bench, &(struct frame){.number = 1});
		CHECK(&bench->check, has_number(bench, 1), "what completes it is not recorded");
		come(bench, &(struct frame){.number = 2});
		recorded = has_number(bench, 2);
	}
	CHECK(&bench->check, !recorded, "segments of a connection that came in are recorded");
	come(bench, &(struct frame){.number = 3, .port = 1});
	CHECK(&bench->check, has_number(bench, 3), "another connection's is not recorded");
	come(bench, &(struct frame){.flags = SYN});
	come(bench, &(struct frame){.number = 4});
	CHECK(&bench->check, has_number(bench, 4), "what completes it again is not recorded");
}

/* A datagram's flow is of the generation in which the last one came in. */
static void check_flow(struct bench *bench)
{
	const struct frame frame = {.datagram = true};
	const int flows = bpf_map__fd(bench->kernel->skeleton->maps.pg_flows);
	struct pg_flow_key key, *before = NULL;
	struct pg_flow flow;
	size_t found = 0;

	empty_table(bench, false);
	come(bench, &frame);
	CHECK(&bench->check, has_flow(bench), "no flow");
	switch_to(bench, PG_PHASE_RUN);
	come(bench, &frame);
	for (; !bpf_map_get_next_key(flows, before, &key); before = &key)
		if (!bpf_map_lookup_elem(flows, &key, &flow) && key.kind == PG_FLOW_LINK &&
		    key.remote_port == htons(PORT))
			found += flow.generation == (uint32_t)bench->state.generation;
	CHECK(&bench->check, found, "the flow is not of this generation");
}

/* Whether it is recorded some time, without anything having changed. */
static void check_over(struct bench *bench)
{
	const uint64_t until = pg_monotonic_ns() + PATIENCE_NS;
	const struct frame frame = {};

	empty_table(bench, true);
	come(bench, &frame);
	empty_table(bench, true);
	while (!has_peer(bench, &frame) && pg_monotonic_ns() < until)
		come(bench, &frame);
	CHECK(&bench->check, has_peer(bench, &frame), "a place that is never over");
}

/* Of who is on the link itself the station counts, so it is recorded each time. */
static void check_stations(struct bench *bench)
{
	const struct row row = {.what = "the same of a neighbour's", .asked = true};

	put_link(bench, PG_LINK_STATIONS, 1);
	for (int i = 0; i < TRIES; i++)
		CHECK(&bench->check, is_recorded(bench, &row), "a neighbour's is not recorded");
	put_link(bench, PG_LINK_STATIONS, 0);
	switch_to(bench, PG_PHASE_SETUP);
	for (int i = 0; i < TRIES; i++)
		if (!is_recorded(bench, &row))
			return;
	CHECK(&bench->check, false, "the host's is recorded each time");
}

/* Nobody takes the place of another who is on the same network, nor does who is behind the host. */
static void check_neighbours(struct bench *bench, bool v6)
{
	struct frame frame = {.v6 = v6, .station = 1};
	int known = 0;

	empty_table(bench, true);
	for (frame.remote = 0; frame.remote < NEIGHBOURS; frame.remote++)
		come(bench, &frame);
	for (struct frame far = {.v6 = v6}; far.remote < BEHIND; far.remote++) {
		struct frame other = far;

		other.remote = (uint8_t)(far.remote + NEIGHBOURS);
		come(bench, &other);
	}
	for (frame.remote = 0; frame.remote < NEIGHBOURS; frame.remote++)
		known += has_peer(bench, &frame);
	CHECK(&bench->check, known == NEIGHBOURS, "%d of %d neighbours are known%s", known,
	      NEIGHBOURS, v6 ? ", IPv6" : "");
}

int main(void)
{
	struct bench bench = {};

	open_bench(&bench);
	check_rows(&bench);
	check_group(&bench.check, "what is recorded again");
	check_numbers(&bench);
	check_group(&bench.check, "what segments acknowledge");
	check_flow(&bench);
	check_over(&bench);
	check_group(&bench.check, "flows after a switch, and a place that is over");
	check_stations(&bench);
	check_neighbours(&bench, false);
	check_neighbours(&bench, true);
	check_group(&bench.check, "neighbours and the host");
	return close_bench(&bench);
}
