// SPDX-License-Identifier: Apache-2.0
/*
 * What the guard of a veth keeps of what went out, so that nothing which comes back later opens
 * anything, and of connections that are opened at the same time.
 */
#include <netinet/in.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <phasegate/abi/flow.h>

#include "kernel/kernel_internal.h"
#include "link_frames.h"

/* Connections that are opened at the same time: each is known to have been, until it is complete.
 */
static void check_together(struct bench *bench)
{
	struct pg_link_table table = {};
	uint16_t count = 0, found = 0;

	empty_table(bench, true);
	switch_to(bench, PG_PHASE_RUN);
	for (; count < PG_LINK_STREAMS / 8; count++)
		come(bench, &(struct frame){.flags = SYN, .port = count});
	read_table(bench, &table);
	for (size_t i = 0; i < PG_LINK_STREAMS; i++)
		found += table.streams[i].protocol == IPPROTO_TCP;
	CHECK(&bench->check, found == count, "%u of %u are known", found, count);
}

/* Whether who gets segments has lost the word about what it acknowledges. */
static bool has_asked(struct bench *bench)
{
	struct pg_link_table table = {};
	size_t found = 0;

	read_table(bench, &table);
	for (size_t i = 0; i < PG_LINK_ASKED; i++)
		found += table.asked[i];
	return found && !table.asked_any;
}

/* Without a SYN, too: what a router on the way lets back in need not have begun with one. */
static void check_segments_out(struct bench *bench)
{
	for (int v6 = 0; v6 < 2; v6++) {
		empty_table(bench, false);
		switch_to(bench, PG_PHASE_SETUP);
		come(bench, &(struct frame){.out = true, .v6 = v6});
		CHECK(&bench->check, has_asked(bench), "IPv%d: a segment", v6 ? 6 : 4);
		empty_table(bench, false);
		switch_to(bench, PG_PHASE_SETUP);
		come(bench, &(struct frame){.flags = SYN, .v6 = v6});
		come(bench, &(struct frame){.flags = SYN | ACK, .out = true, .v6 = v6});
		come(bench, &(struct frame){.out = true, .v6 = v6});
		CHECK(&bench->check, !has_asked(bench), "IPv%d: of what came in", v6 ? 6 : 4);
		come(bench, &(struct frame){.out = true, .port = 1, .v6 = v6});
		CHECK(&bench->check, has_asked(bench), "IPv%d: of another connection", v6 ? 6 : 4);
	}
}

static size_t count_sent(struct bench *bench)
{
	struct pg_link_table table = {};
	size_t found = 0;

	read_table(bench, &table);
	for (size_t i = 0; i < PG_LINK_SENT / 32; i++)
		found += (size_t)__builtin_popcount(table.sent[i]);
	return found + table.sent_any;
}

/* Inbound flows as the guard has seen them, at the frame's port. */
static size_t count_inbound(struct bench *bench, uint16_t port)
{
	const int flows = bpf_map__fd(bench->kernel->skeleton->maps.pg_flows);
	struct pg_flow_key key, *before = NULL;
	struct pg_flow flow;
	size_t found = 0;

	for (; !bpf_map_get_next_key(flows, before, &key); before = &key)
		found += !bpf_map_lookup_elem(flows, &key, &flow) && key.kind == PG_FLOW_LINK &&
			 flow.direction == PG_FLOW_INBOUND &&
			 key.remote_port == htons((uint16_t)(PORT + port));
	return found;
}

/* As when three minutes have passed. */
static void forget_datagrams(struct bench *bench)
{
	struct pg_link_table table = {};

	read_table(bench, &table);
	memset(table.datagrams, 0, sizeof(table.datagrams));
	table.barred = 0;
	write_table(bench, &table);
}

/* A datagram that is no reply to what came in by the veth: nothing on its tuple opens a flow, in no
 * phase, nor do the kernel's errors answer it. What the hooks of the cgroup have recorded is not
 * asked. */
static void check_datagrams_out(struct bench *bench)
{
	const struct frame to = {.datagram = true, .out = true, .port = 2},
			   from = {.datagram = true, .port = 2},
			   out = {.datagram = true, .out = true, .port = 3},
			   in = {.datagram = true, .port = 3};

	empty_table(bench, false);
	switch_to(bench, PG_PHASE_SETUP);
	come(bench, &to);
	CHECK(&bench->check, count_sent(bench) == 4, "what goes out is not recorded");
	come(bench, &from);
	switch_to(bench, PG_PHASE_RUN);
	come(bench, &from);
	CHECK(&bench->check, !count_inbound(bench, 2), "an answer opens a flow");
	forget_datagrams(bench);
	switch_to(bench, PG_PHASE_RUN);
	come(bench, &from);
	CHECK(&bench->check, !has_flow(bench), "an answer may be answered by errors");

	/* It has no socket: barred for a while. */
	CHECK(&bench->check, !pg_flows_allow(bench->kernel, LAB_ENV_ID, NULL), "allowing");
	empty_table(bench, false);
	switch_to(bench, PG_PHASE_SETUP);
	come(bench, &in);
	CHECK(&bench->check, count_inbound(bench, 3) == 1, "in public, too, what came in is");
	come(bench, &out);
	CHECK(&bench->check, !count_sent(bench), "a reply is recorded");
	switch_to(bench, PG_PHASE_SETUP);
	come(bench, &out);
	CHECK(&bench->check, count_sent(bench) == 4 && !count_inbound(bench, 3),
	      "what is no reply any more");
}

/* However many tuples there were: who was sent nothing has asked. */
static void check_others_addresses(struct bench *bench)
{
	const struct frame frame = {.datagram = true, .port = 20000};
	struct pg_link_table table = {};

	empty_table(bench, false);
	switch_to(bench, PG_PHASE_RUN);
	read_table(bench, &table);
	memset(table.sent, 0xff, sizeof(table.sent) / 2);
	write_table(bench, &table);
	CHECK(&bench->check, !count_inbound(bench, 20000), "it was there before");
	come(bench, &frame);
	CHECK(&bench->check, count_inbound(bench, 20000) == 1, "whom nothing was sent to");
}

/* What comes in while no flow may be opened may be an answer, and goes on being one. */
static void check_barred(struct bench *bench)
{
	const struct frame frame = {.datagram = true, .port = 4};

	empty_table(bench, false);
	switch_to(bench, PG_PHASE_RUN);
	CHECK(&bench->check, !pg_flows_bar(bench->kernel, LAB_ENV_ID, NULL), "barring");
	come(bench, &frame);
	CHECK(&bench->check, !pg_flows_allow(bench->kernel, LAB_ENV_ID, NULL), "allowing");
	switch_to(bench, PG_PHASE_RUN);
	forget_datagrams(bench);
	come(bench, &frame);
	CHECK(&bench->check, !count_inbound(bench, 4), "it opens a flow");
	CHECK(&bench->check, !has_flow(bench), "it may be answered by errors");
	come(bench, &(struct frame){.datagram = true, .port = 5});
	CHECK(&bench->check, count_inbound(bench, 5) == 1 && has_flow(bench),
	      "another one does not");
}

int main(void)
{
	struct bench bench = {};

	open_bench(&bench);
	check_together(&bench);
	check_group(&bench.check, "connections that are opened at the same time");
	check_segments_out(&bench);
	check_group(&bench.check, "segments that go out");
	check_datagrams_out(&bench);
	check_barred(&bench);
	check_others_addresses(&bench);
	check_group(&bench.check, "datagrams that go out, and that may be answers");
	return close_bench(&bench);
}
