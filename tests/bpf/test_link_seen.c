// SPDX-License-Identifier: Apache-2.0
/*
 * What comes in by a veth is recorded, but not again a moment later (struct pg_link_seen): when it
 * is not, and what of it has to be each time. The table is emptied in between, so that what is
 * recorded again is seen. A place may be over before the next frame, so such a row is tried again.
 * And what goes out, so that nothing which comes back later opens anything.
 */
#include <errno.h>
#include <linux/if_ether.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <phasegate/abi/flow.h>
#include <phasegate/abi/link.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "check.h"
#include "kernel/kernel_internal.h"
#include "kernel/link.h"
#include "lab.h"
#include "net/addr.h"

#define TRIES	    20
#define PATIENCE_NS 3000000000ULL
#define PORT	    7000
#define NUMBER	    77

#define REMOTE4 "\x0a\x09\x00\x02"
#define LOCAL4	"\x0a\x09\x00\x01"
#define REMOTE6 "\xfd\x09\0\0\0\0\0\0\0\0\0\0\0\0\0\x02"
#define LOCAL6	"\xfd\x09\0\0\0\0\0\0\0\0\0\0\0\0\0\x01"

#define ACK TH_ACK
#define SYN TH_SYN

struct bench {
	struct check check;
	struct lab lab;
	struct pg_kernel *kernel;
	struct pg_header header;
	struct pg_state_value state;
	unsigned int ifindex;
	int tables;
};

/* What differs from an ACK of somebody's, from the host. */
struct frame {
	bool v6, datagram, other_local;
	bool out;	 /* to somebody */
	uint8_t flags;	 /* of TCP; 0: ACK */
	uint8_t station; /* its last octet */
	uint16_t port;	 /* added to the remote one */
	uint32_t number;
};

static size_t put_header(const struct frame *frame, uint8_t *to)
{
	const uint8_t protocol = frame->datagram ? IPPROTO_UDP : IPPROTO_TCP;
	struct ip6_hdr v6 = {.ip6_hops = 64, .ip6_nxt = protocol};
	struct iphdr v4 = {.version = 4, .ihl = 5, .ttl = 64, .protocol = protocol};
	struct ethhdr ethernet = {.h_dest = {2, 0, 0, 0, 0, 1}, .h_source = {2, 0, 0, 0, 0, 2}};

	ethernet.h_source[5] = (uint8_t)(ethernet.h_source[5] + frame->station);
	ethernet.h_proto = htons(frame->v6 ? ETH_P_IPV6 : ETH_P_IP);
	memcpy(to, &ethernet, sizeof(ethernet));
	memcpy(&v4.saddr, frame->out ? LOCAL4 : REMOTE4, 4);
	memcpy(&v4.daddr, frame->out ? REMOTE4 : LOCAL4, 4);
	memcpy(&v6.ip6_src, frame->out ? LOCAL6 : REMOTE6, 16);
	memcpy(&v6.ip6_dst, frame->out ? REMOTE6 : LOCAL6, 16);
	v4.daddr += htonl(frame->other_local);
	v6.ip6_dst.s6_addr[15] = (uint8_t)(v6.ip6_dst.s6_addr[15] + 2 * frame->other_local);
	v6.ip6_vfc = 6 << 4;
	if (frame->v6)
		memcpy(to + sizeof(ethernet), &v6, sizeof(v6));
	else
		memcpy(to + sizeof(ethernet), &v4, sizeof(v4));
	return sizeof(ethernet) + (frame->v6 ? sizeof(v6) : sizeof(v4));
}

static void come(struct bench *bench, const struct frame *frame)
{
	const int fd = bpf_program__fd(frame->out ? bench->kernel->links->progs.pg_link_from
						  : bench->kernel->links->progs.pg_link_to);
	const uint16_t remote = htons((uint16_t)(PORT + frame->port));
	struct tcphdr tcp = {
		.th_sport = frame->out ? htons(PORT) : remote,
		.th_dport = frame->out ? remote : htons(PORT),
		.th_ack = htonl(NUMBER + frame->number),
		.th_off = 5,
		.th_flags = frame->flags ? frame->flags : ACK,
	};
	struct __sk_buff context = {.ifindex = bench->ifindex};
	uint8_t octets[128] = {};
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = octets, .ctx_in = &context,
		    .ctx_size_in = sizeof(context));

	options.data_size_in = (__u32)(put_header(frame, octets) + sizeof(tcp));
	memcpy(octets + options.data_size_in - sizeof(tcp), &tcp, sizeof(tcp));
	CHECK(&bench->check, !bpf_prog_test_run_opts(fd, &options), "the program does not run: %s",
	      strerror(errno));
}

static struct pg_addr remote_of(const struct frame *frame)
{
	struct pg_addr addr;
	uint32_t v4;

	memcpy(&v4, REMOTE4, sizeof(v4));
	memcpy(&addr, REMOTE6, sizeof(addr));
	return frame->v6 ? addr : pg_addr_from_v4(v4);
}

static void read_table(struct bench *bench, struct pg_link_table *ret)
{
	CHECK(&bench->check, !bpf_map_lookup_elem(bench->tables, &bench->header.env_id, ret),
	      "no table");
}

/* asked: a SYN has gone out, to anybody. */
static void empty_table(struct bench *bench, bool asked)
{
	const struct pg_link_table table = {.asked_any = asked};

	CHECK(&bench->check,
	      !bpf_map_update_elem(bench->tables, &bench->header.env_id, &table, BPF_EXIST),
	      "the table: %s", strerror(errno));
}

static bool has_peer(struct bench *bench, const struct frame *frame)
{
	const struct pg_addr addr = remote_of(frame);
	struct pg_link_table table = {};

	read_table(bench, &table);
	for (size_t i = 0; i < PG_LINK_PEERS; i++)
		if (!memcmp(&table.peers[i].addr, &addr, sizeof(addr)))
			return true;
	return false;
}

static bool has_number(struct bench *bench, uint32_t number)
{
	struct pg_link_table table = {};

	read_table(bench, &table);
	for (size_t i = 0; i < PG_LINK_ACKS; i++)
		if (table.acks[i].number == NUMBER + number)
			return true;
	return false;
}

static bool has_flow(struct bench *bench)
{
	struct pg_link_table table = {};
	size_t found = 0;

	read_table(bench, &table);
	for (size_t i = 0; i < PG_LINK_DATAGRAMS; i++)
		found += table.datagrams[i].protocol == IPPROTO_UDP;
	return found;
}

static void switch_to(struct bench *bench, enum pg_phase phase)
{
	struct pg_error err = {};

	bench->state.generation++;
	bench->state.phase = phase;
	CHECK(&bench->check,
	      !pg_state_write(bench->kernel, bench->header.state, &bench->state, &err), "%s",
	      err.text);
}

static void put_link(struct bench *bench, uint32_t flags, uint8_t host)
{
	const struct pg_link_stations stations = {
		.own = 1,
		.host = 2 | (uint64_t)(2 + host) << 40,
		.bridge = 2 | (uint64_t)(2 + host) << 40,
	};
	struct pg_error err = {};

	CHECK(&bench->check,
	      !pg_link_put(bench->kernel, bench->ifindex, &bench->header, flags, &stations, &err),
	      "%s", err.text);
}

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
	CHECK(&bench->check,
	      !bpf_map_update_elem(bench->tables, &bench->header.env_id, &table, BPF_EXIST),
	      "the table: %s", strerror(errno));
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
	CHECK(&bench->check,
	      !bpf_map_update_elem(bench->tables, &bench->header.env_id, &table, BPF_EXIST),
	      "the table: %s", strerror(errno));
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

static bool open_kernel(struct bench *bench)
{
	struct pg_error err = {};

	bench->ifindex = lab_device();
	bench->header = (struct pg_header){
		.magic = PG_HEADER_MAGIC,
		.env_id = LAB_ENV_ID,
		.cgroup_id = LAB_ENV_ID,
		.level = 1,
		.slots[0][PG_PHASE_SETUP].mode = PG_MODE_PUBLIC,
		.slots[0][PG_PHASE_RUN].mode = PG_MODE_NO_NETWORK,
	};
	if (pg_kernel_open(NULL, &bench->kernel, &err) ||
	    pg_link_programs_load(bench->kernel, &err) ||
	    pg_state_take(bench->kernel, &bench->header.state, &err) ||
	    pg_flows_allow(bench->kernel, LAB_ENV_ID, &err)) {
		printf("# %s\n", err.text);
		return false;
	}
	bench->tables = bpf_map__fd(bench->kernel->skeleton->maps.pg_link_tables);
	return true;
}

int main(void)
{
	struct bench bench = {};
	cpu_set_t first;

	CPU_ZERO(&first);
	CPU_SET(sched_getcpu(), &first);
	sched_setaffinity(0, sizeof(first), &first); /* each CPU has places of its own */
	lab_open(&bench.lab);
	if (open_kernel(&bench)) {
		put_link(&bench, 0, 0);
		check_rows(&bench);
		check_group(&bench.check, "what is recorded again");
		check_numbers(&bench);
		check_together(&bench);
		check_group(&bench.check, "what segments acknowledge");
		check_flow(&bench);
		check_over(&bench);
		check_group(&bench.check, "flows after a switch, and a place that is over");
		check_segments_out(&bench);
		check_group(&bench.check, "segments that go out");
		check_datagrams_out(&bench);
		check_barred(&bench);
		check_others_addresses(&bench);
		check_group(&bench.check, "datagrams that go out, and that may be answers");
		check_stations(&bench);
		check_group(&bench.check, "neighbours and the host");
	} else {
		CHECK(&bench.check, false, "no kernel part");
		check_group(&bench.check, "loading");
	}
	pg_kernel_free(bench.kernel);
	lab_close(&bench.lab);
	return check_end(&bench.check);
}
