// SPDX-License-Identifier: Apache-2.0
/*
 * Who opened a UDP flow, hook by hook: what the Environment sent first in public never comes back
 * as inbound, whatever the packet looked like; what came in first may be answered in every phase.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <phasegate/abi/counter.h>
#include <phasegate/abi/flow.h>

#include "check.h"
#include "judge.skel.h"
#include "lab.h"

#define LOCAL_PORT  4000
#define REMOTE_PORT 5000

/* More than the indices of states that are used here. */
#define STATES 16

struct bench {
	struct check check;
	struct lab lab;
	unsigned int device;
};

/* What a packet is besides a datagram. */
enum form {
	FORM_PLAIN,
	FORM_FRAGMENT,
	FORM_OPTIONS,
	FORM_OPTIONS_FRAGMENT,
	FORM_ROUTING,
	FORM_HOP_BY_HOP,
};

static const char *const form_names[] = {"plain",	   "fragment",
					 "options",	   "options and fragment",
					 "routing header", "hop-by-hop header"};

static void put_ports(uint8_t *udp, unsigned int source, unsigned int destination)
{
	const uint8_t octets[4] = {(uint8_t)(source >> 8), (uint8_t)source,
				   (uint8_t)(destination >> 8), (uint8_t)destination};

	memcpy(udp, octets, sizeof(octets));
}

static size_t make4(uint8_t *ip, enum form form, uint8_t protocol, const char *source,
		    const char *destination)
{
	const bool options = form == FORM_OPTIONS || form == FORM_OPTIONS_FRAGMENT;

	ip[0] = options ? 0x46 : 0x45;
	ip[6] = form == FORM_FRAGMENT || form == FORM_OPTIONS_FRAGMENT ? 0x20 : 0;
	ip[9] = protocol;
	inet_pton(AF_INET, source, ip + 12);
	inet_pton(AF_INET, destination, ip + 16);
	return options ? 24 : 20;
}

static uint8_t next_header(enum form form, uint8_t protocol)
{
	switch (form) {
	case FORM_FRAGMENT:
		return 44;
	case FORM_HOP_BY_HOP:
		return 0;
	case FORM_PLAIN:
		return protocol;
	case FORM_OPTIONS:
	case FORM_OPTIONS_FRAGMENT:
	case FORM_ROUTING:
		break;
	}
	return 43;
}

static size_t make6(uint8_t *ip, enum form form, uint8_t protocol, const char *source,
		    const char *destination)
{
	const bool extended = form != FORM_PLAIN;

	ip[0] = 0x60;
	ip[6] = next_header(form, protocol);
	ip[40] = extended ? protocol : 0;
	inet_pton(AF_INET6, source, ip + 8);
	inet_pton(AF_INET6, destination, ip + 24);
	return extended ? 48 : 40;
}

struct step {
	bool out;
	enum pg_mode mode;
	enum form form;
	uint8_t protocol;
	const char *local, *remote;
	unsigned int remote_port;
	bool on_lo;
	uint64_t env_id, generation;
	uint32_t state;
};

/* Whether the packet passes. */
static bool transmit(struct bench *bench, const struct step *step)
{
	const struct judge_bpf *skeleton = bench->lab.skeleton;
	const char *source = step->out ? step->local : step->remote;
	const char *destination = step->out ? step->remote : step->local;
	const unsigned int remote_port = step->remote_port ? step->remote_port : REMOTE_PORT;
	const bool v6 = strchr(source, ':');
	const uint8_t protocol = step->protocol ? step->protocol : 17;
	struct model_policy policy = {.installed = true};
	uint8_t octets[100] = {};
	const size_t header =
		(v6 ? make6 : make4)(octets, step->form, protocol, source, destination);
	const struct lab_frame frame = {
		.ethertype = v6 ? 0x86dd : 0x0800,
		.octets = octets,
		.size = header + 20,
		.ifindex = step->on_lo ? 0 : bench->device,
	};

	put_ports(octets + header, step->out ? LOCAL_PORT : remote_port,
		  step->out ? remote_port : LOCAL_PORT);
	for (size_t i = 0; i < PG_PHASE_COUNT; i++)
		policy.phases[i].mode = step->mode ? step->mode : PG_MODE_NO_NETWORK;
	policy.generation = step->generation;
	lab_describe(&bench->lab, &policy, &bench->lab.cases[0]);
	if (step->env_id)
		bench->lab.cases[0].header.env_id = step->env_id;
	if (step->state)
		bench->lab.cases[0].header.state = step->state;
	return lab_run(&bench->lab,
		       step->out ? skeleton->progs.judge_egress : skeleton->progs.judge_ingress,
		       &frame, 1) == 1;
}

static struct pg_flow_count *count_of(struct bench *bench, __u32 index)
{
	static struct pg_flow_count count;
	const int fd = bpf_map__fd(bench->lab.skeleton->maps.pg_flow_counts);

	if (bpf_map_lookup_elem(fd, &index, &count))
		exit(EXIT_FAILURE);
	return &count;
}

static void set_count(struct bench *bench, __u32 index, __u64 live)
{
	const struct pg_flow_count count = {.live = live};

	if (bpf_map_update_elem(bpf_map__fd(bench->lab.skeleton->maps.pg_flow_counts), &index,
				&count, BPF_EXIST))
		exit(EXIT_FAILURE);
}

static void forget(struct bench *bench)
{
	const int fd = bpf_map__fd(bench->lab.skeleton->maps.pg_flows);
	struct pg_flow_key key;

	while (!bpf_map_get_next_key(fd, NULL, &key))
		bpf_map_delete_elem(fd, &key);
	for (__u32 i = 0; i < STATES; i++)
		set_count(bench, i, 0);
}

static unsigned int flow_count(struct bench *bench)
{
	const int fd = bpf_map__fd(bench->lab.skeleton->maps.pg_flows);
	struct pg_flow_key key, *last = NULL;
	unsigned int count = 0;

	while (!bpf_map_get_next_key(fd, last, &key)) {
		last = &key;
		count++;
	}
	return count;
}

/* Ends of a conversation in either family. */
static const struct {
	const char *local, *remote, *other;
} ends[2] = {
	{"10.0.0.1", "10.0.9.9", "10.0.9.10"},
	{"2001:db8::1", "2001:db8:9::9", "2001:db8:9::10"},
};

static void try_inbound(struct bench *bench)
{
	struct check *check = &bench->check;

	for (size_t i = 0; i < 2; i++) {
		const char *local = ends[i].local, *remote = ends[i].remote;
		struct step in = {.local = local, .remote = remote};
		struct step reply = {.out = true, .local = local, .remote = remote};
		struct step elsewhere = {.out = true, .local = local, .remote = ends[i].other};
		struct step other_port = {.out = true,
					  .local = local,
					  .remote = remote,
					  .remote_port = 5001};
		struct step neighbour = reply;

		forget(bench);
		CHECK(check, !transmit(bench, &reply), "%s: passes before it is a reply", local);
		CHECK(check, transmit(bench, &in), "%s: does not come in", local);
		CHECK(check, flow_count(bench) == 2, "%s: %u flows", local, flow_count(bench));
		CHECK(check, transmit(bench, &reply), "%s: no reply", local);
		CHECK(check, !transmit(bench, &elsewhere), "%s: another remote passes", local);
		CHECK(check, !transmit(bench, &other_port), "%s: another port passes", local);
		neighbour.env_id = 0x9999;
		CHECK(check, !transmit(bench, &neighbour), "%s: another Environment's", local);
		reply.form = FORM_FRAGMENT;
		CHECK(check, !transmit(bench, &reply), "%s: a fragment passes", local);

		forget(bench);
		in.on_lo = true;
		reply.form = FORM_PLAIN;
		CHECK(check, transmit(bench, &in) && !flow_count(bench), "%s: a flow on lo", local);
		CHECK(check, !transmit(bench, &reply), "%s: a flow from lo", local);
		reply.on_lo = true;
		reply.mode = PG_MODE_PUBLIC;
		CHECK(check, transmit(bench, &reply) && !flow_count(bench), "%s: a flow over lo",
		      local);
	}
	check_group(check, "inbound flows are answered, exactly");
}

static void try_outbound(struct bench *bench, size_t family, enum form form)
{
	const char *local = ends[family].local, *remote = ends[family].remote;
	const char *name = form_names[form];
	const struct step out = {.out = true,
				 .mode = PG_MODE_PUBLIC,
				 .form = form,
				 .local = local,
				 .remote = remote};
	const struct step answer = {.local = local, .remote = remote};
	const struct step later = {.out = true, .local = local, .remote = remote};
	struct check *check = &bench->check;

	forget(bench);
	CHECK(check, transmit(bench, &out), "%s, %s: not sent in public", local, name);
	CHECK(check, transmit(bench, &out), "%s, %s: not sent again", local, name);
	CHECK(check, transmit(bench, &answer), "%s, %s: no answer", local, name);
	CHECK(check, !transmit(bench, &later), "%s, %s: the answer has opened a flow", local, name);
	CHECK(check, flow_count(bench) == 1, "%s, %s: %u flows", local, name, flow_count(bench));
}

/* A packet that says where it goes bars no one else, and other protocols bar nothing. */
static void try_bystanders(struct bench *bench)
{
	const char *local = ends[0].local;
	const struct step in = {.local = local, .remote = ends[0].other};
	const struct step reply = {.out = true, .local = local, .remote = ends[0].other};
	struct step out = {.out = true,
			   .mode = PG_MODE_PUBLIC,
			   .form = FORM_FRAGMENT,
			   .local = local,
			   .remote = ends[0].remote};
	struct check *check = &bench->check;

	forget(bench);
	CHECK(check, transmit(bench, &out) && transmit(bench, &in) && transmit(bench, &reply),
	      "a fragment bars others");
	forget(bench);
	out.form = FORM_OPTIONS;
	out.protocol = 6;
	CHECK(check, transmit(bench, &out) && transmit(bench, &in) && transmit(bench, &reply),
	      "TCP with options bars UDP");
	forget(bench);
	out.protocol = 17;
	CHECK(check, transmit(bench, &out) && transmit(bench, &in) && !transmit(bench, &reply),
	      "options do not bar others");
	forget(bench);
	out.mode = PG_MODE_NO_NETWORK;
	CHECK(check, !transmit(bench, &out) && transmit(bench, &in) && transmit(bench, &reply),
	      "what was denied bars others");
}

/* Behind a hop-by-hop header is what it says: the kernel's MLD of a new link bars nothing. */
static void try_mld(struct bench *bench)
{
	const char *local = ends[1].local;
	const struct step in = {.local = local, .remote = ends[1].other};
	const struct step reply = {.out = true, .local = local, .remote = ends[1].other};
	struct step out = {.out = true,
			   .mode = PG_MODE_PUBLIC,
			   .form = FORM_HOP_BY_HOP,
			   .protocol = 58,
			   .local = local,
			   .remote = ends[1].remote};
	struct check *check = &bench->check;

	forget(bench);
	CHECK(check, transmit(bench, &out) && transmit(bench, &in) && transmit(bench, &reply),
	      "MLD bars UDP");
	forget(bench);
	out.protocol = 17;
	CHECK(check, transmit(bench, &out) && transmit(bench, &in) && !transmit(bench, &reply),
	      "a datagram behind a hop-by-hop header does not bar others");
}

/*
 * What came in before a switch, perhaps as the answer of another port to what was sent, is no
 * reason to send after it; what comes in after it is. Sent first after the switch, it is outbound.
 */
static void try_switch(struct bench *bench)
{
	struct check *check = &bench->check;

	for (size_t i = 0; i < 2; i++) {
		struct step in = {.local = ends[i].local, .remote = ends[i].remote};
		struct step reply = {.out = true, .local = in.local, .remote = in.remote};
		struct step allowed = reply;

		in.generation = reply.generation = allowed.generation = 7;
		allowed.mode = PG_MODE_PUBLIC;
		forget(bench);
		CHECK(check, transmit(bench, &in) && transmit(bench, &reply), "%s: no reply",
		      in.local);
		reply.generation = allowed.generation = 8;
		CHECK(check, !transmit(bench, &reply), "%s: the flow outlives the switch",
		      in.local);
		in.generation = 8;
		CHECK(check, transmit(bench, &in) && transmit(bench, &reply),
		      "%s: not reachable after the switch", in.local);
		CHECK(check, flow_count(bench) == 2, "%s: %u flows", in.local, flow_count(bench));
		reply.generation = allowed.generation = in.generation = 9;
		CHECK(check, transmit(bench, &allowed), "%s: not sent in public", in.local);
		CHECK(check, transmit(bench, &in) && !transmit(bench, &reply),
		      "%s: an answer opens what was sent first after the switch", in.local);
	}
	check_group(check, "a switch ends what was inbound, until something comes in");
}

/*
 * An Environment that has as many flows as there is room for: what was sent then is not recorded,
 * and its answer must not become inbound when there is room again.
 */
static void try_full(struct bench *bench)
{
	const int bars = bpf_map__fd(bench->lab.skeleton->maps.pg_flow_bars);
	const struct step out = {.out = true,
				 .mode = PG_MODE_PUBLIC,
				 .local = ends[0].local,
				 .remote = ends[0].remote};
	const struct step answer = {.local = out.local, .remote = out.remote};
	const struct step later = {.out = true, .local = out.local, .remote = out.remote};
	struct pg_counters *counters = &bench->lab.skeleton->bss->judge_counters;
	const __u64 env_id = LAB_ENV_ID;
	struct check *check = &bench->check;
	pg_flow_bar until = 0;

	forget(bench);
	memset(counters, 0, sizeof(*counters));
	set_count(bench, LAB_STATE, PG_FLOW_MAX / 2);
	set_count(bench, PG_FLOW_ALL, PG_FLOW_MAX / 2);
	CHECK(check, transmit(bench, &out), "a full table stops what goes out");
	CHECK(check, counters->flows_refused == 1 && !flow_count(bench), "it is not refused");
	forget(bench);
	CHECK(check, transmit(bench, &answer), "no answer");
	CHECK(check, counters->flows_refused == 2, "the refusal is not counted");
	CHECK(check, !transmit(bench, &later), "the answer has opened a flow");
	CHECK(check, !bpf_map_update_elem(bars, &env_id, &until, BPF_EXIST), "no bar");
	CHECK(check, transmit(bench, &answer) && transmit(bench, &later), "still barred");
	forget(bench);
	bpf_map_delete_elem(bars, &env_id);
	CHECK(check, transmit(bench, &answer) && !transmit(bench, &later), "open without a bar");
	bpf_map_update_elem(bars, &env_id, &until, BPF_ANY);
	check_group(check, "a full table bars new inbound flows");
}

/* Sends, or lets come in, until a packet is refused; returns how many were recorded. */
static unsigned int flood(struct bench *bench, bool out, __u64 env_id, __u32 state)
{
	const struct pg_counters *counters = &bench->lab.skeleton->bss->judge_counters;
	const __u64 before = counters->flows_refused;
	struct step step = {.out = out,
			    .mode = PG_MODE_PUBLIC,
			    .remote = ends[0].remote,
			    .env_id = env_id,
			    .state = state};
	unsigned int sent = 0;
	char local[32];

	while (counters->flows_refused == before && sent < 2 * PG_FLOW_MAX) {
		snprintf(local, sizeof(local), "10.1.%u.%u", sent >> 8 & 0xff, sent & 0xff);
		step.local = local;
		step.remote_port = 1024 + (sent >> 16);
		transmit(bench, &step);
		sent++;
	}
	return sent - 1;
}

/* Whether somebody who comes from outside is answered. */
static bool serves(struct bench *bench, const char *remote)
{
	const struct step in = {.local = ends[0].local, .remote = remote};
	const struct step reply = {.out = true, .local = in.local, .remote = remote};

	return transmit(bench, &in) && transmit(bench, &reply);
}

/* Others flood with tuples of their own making, from inside and from outside. */
static void try_floods(struct bench *bench)
{
	static const struct {
		__u64 env_id;
		__u32 state;
		bool out;
	} floods[] = {{0x7001, 11, true}, {0x7002, 12, false}, {0x7003, 13, true}};
	const int bars = bpf_map__fd(bench->lab.skeleton->maps.pg_flow_bars);
	struct pg_counters *counters = &bench->lab.skeleton->bss->judge_counters;
	struct step held = {.out = true, .local = ends[0].local, .remote = ends[0].other};
	struct check *check = &bench->check;
	unsigned int got, room = PG_FLOW_MAX;
	const pg_flow_bar none = 0;

	forget(bench);
	CHECK(check, serves(bench, ends[0].other), "not reachable before");
	room -= 2;
	for (size_t i = 0; i < sizeof(floods) / sizeof(floods[0]); i++) {
		bpf_map_update_elem(bars, &floods[i].env_id, &none, BPF_ANY);
		got = flood(bench, floods[i].out, floods[i].env_id, floods[i].state);
		/* Half of what the others leave; what comes in takes two each. */
		CHECK(check, got >= room / (floods[i].out ? 2 : 4) - 1 && got <= (room + 1) / 2,
		      "flood %zu: %u flows of %u", i, got, room);
		CHECK(check, count_of(bench, floods[i].state)->live <= room / 2 + 2,
		      "flood %zu: %llu flows", i, count_of(bench, floods[i].state)->live);
		room = PG_FLOW_MAX - (unsigned int)count_of(bench, PG_FLOW_ALL)->live;
	}
	CHECK(check, flow_count(bench) == count_of(bench, PG_FLOW_ALL)->live,
	      "%u flows are counted as %llu", flow_count(bench),
	      count_of(bench, PG_FLOW_ALL)->live);
	counters->flows_refused = 0;
	CHECK(check, transmit(bench, &held), "what was open before the floods is closed");
	CHECK(check, serves(bench, ends[0].remote), "others cannot be reached any more");
	CHECK(check, flood(bench, true, LAB_ENV_ID, LAB_STATE) > 1000, "others have no room");
	for (size_t i = 0; i < sizeof(floods) / sizeof(floods[0]); i++)
		bpf_map_delete_elem(bars, &floods[i].env_id);
	bpf_map_update_elem(bars, &(const __u64){LAB_ENV_ID}, &none, BPF_ANY);
	check_group(check, "a flood of one Environment leaves the others their flows");
}

static void try_counters(struct bench *bench)
{
	const struct step in = {.local = ends[0].local, .remote = ends[0].remote};
	const struct step reply = {.out = true, .local = in.local, .remote = in.remote};
	const struct step denied = {.out = true, .local = in.local, .remote = ends[0].other};
	struct pg_counters *counters = &bench->lab.skeleton->bss->judge_counters;
	struct check *check = &bench->check;

	forget(bench);
	memset(counters, 0, sizeof(*counters));
	transmit(bench, &in);
	transmit(bench, &reply);
	transmit(bench, &reply);
	transmit(bench, &denied);
	CHECK(check, counters->verdict[PG_COUNT_PACKET][PG_ALLOW] == 2, "packets allowed");
	CHECK(check, counters->verdict[PG_COUNT_PACKET][PG_DENY] == 1, "packets denied");
	CHECK(check, counters->verdict[PG_COUNT_INGRESS][PG_ALLOW] == 1, "packets come in");
	CHECK(check, counters->reason[PG_REASON_INBOUND] == 2, "inbound");
	CHECK(check, counters->reason[PG_REASON_NOT_ALLOWED] == 1, "not allowed");
	CHECK(check, counters->reason[PG_REASON_INGRESS] == 1, "ingress");
	CHECK(check, !counters->flows_refused && !counters->events_lost, "something was lost");
	check_group(check, "counters");
}

int main(void)
{
	static struct bench bench;

	lab_open(&bench.lab);
	bench.device = lab_device();
	try_inbound(&bench);
	for (enum form form = FORM_PLAIN; form <= FORM_ROUTING; form++)
		for (size_t family = 0; family < 2; family++)
			if ((family == 0) != (form == FORM_ROUTING) || form == FORM_PLAIN)
				try_outbound(&bench, family, form);
	try_outbound(&bench, 1, FORM_FRAGMENT);
	try_outbound(&bench, 1, FORM_HOP_BY_HOP);
	check_group(&bench.check, "what was sent first never becomes inbound");
	try_bystanders(&bench);
	try_mld(&bench);
	check_group(&bench.check, "and bars no more than it has to");
	try_full(&bench);
	try_floods(&bench);
	try_switch(&bench);
	try_counters(&bench);
	lab_close(&bench.lab);
	return check_end(&bench.check);
}
