// SPDX-License-Identifier: Apache-2.0
/*
 * The guard at the veth against the model: random policies, packets and senders, and answers to
 * what came in. Its record of what came in has fewer places than the model's, so that an answer may
 * be denied; never may anything else pass for one. PHASEGATE_TEST_CASES is the number of cases.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <phasegate/abi/counter.h>
#include <phasegate/abi/flow.h>
#include <phasegate/abi/link.h>
#include <phasegate/abi/set.h>

#include "any.h"
#include "check.h"
#include "judge.skel.h"

#define CASES	   100000
#define WORLD_SIZE 4096 /* cases with the same sets */
#define SEEN_SIZE  512	/* cases with the same record of what came in */
#define PER_POLICY 32
#define RECENT	   16

static const char *const own[] = {"10.0.0.1", "2001:db8::1"};

struct bench {
	struct check check;
	struct lab lab;
	struct rng rng;
	struct model_policy policy;
	struct model_place place;
	struct model_flows flows;
	struct model_seen seen;
	struct any_packet recent[RECENT]; /* came in */
	unsigned int device;
	struct pg_counters counters; /* of what was denied so far */
	unsigned long denied[PG_REASON_COUNT], passed, answers, could;
};

static void fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(EXIT_FAILURE);
}

static int map_of(const struct bpf_map *map)
{
	return bpf_map__fd(map);
}

static void make_addresses(struct bench *bench)
{
	const pg_own_value anywhere = 0;

	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		const struct model_address address = lab_parse(own[i]);
		const struct pg_own_key key = {.env_id = LAB_ENV_ID, .addr = lab_address(&address)};

		if (bpf_map_update_elem(map_of(bench->lab.skeleton->maps.pg_own), &key, &anywhere,
					BPF_ANY))
			fail(own[i]);
		bench->place.own[bench->place.own_count++] = address;
	}
}

/* Nothing has come in. */
static void forget(struct bench *bench)
{
	static const struct pg_link_table empty;
	static const struct pg_link_neighbours nobody;
	const struct judge_bpf *skeleton = bench->lab.skeleton;
	const __u64 env_id = LAB_ENV_ID;
	struct pg_flow_key key;

	while (!bpf_map_get_next_key(map_of(skeleton->maps.pg_flows), NULL, &key))
		bpf_map_delete_elem(map_of(skeleton->maps.pg_flows), &key);
	for (__u32 i = 0; i <= LAB_STATE; i++)
		bpf_map_update_elem(map_of(skeleton->maps.pg_flow_counts), &i,
				    &(const struct pg_flow_count){}, BPF_ANY);
	if (bpf_map_update_elem(map_of(skeleton->maps.pg_link_tables), &env_id, &empty, BPF_ANY) ||
	    bpf_map_update_elem(map_of(skeleton->maps.pg_link_neighbours), &env_id, &nobody,
				BPF_ANY) ||
	    bpf_map_update_elem(map_of(skeleton->maps.pg_link_counts), &env_id,
				&(const struct pg_counters){}, BPF_ANY))
		fail("emptying the guard's tables");
	memset(&bench->counters, 0, sizeof(bench->counters));
	model_flows_clear(&bench->flows);
	bench->seen.next = 0;
}

/* A datagram that no hook of a cgroup has recorded bars what comes in afterwards, and here none is
 * recorded: lifted, so that there are answers. */
static void lift_bars(const struct bench *bench)
{
	const int tables = map_of(bench->lab.skeleton->maps.pg_link_tables);
	const int bars = map_of(bench->lab.skeleton->maps.pg_flow_bars);
	const __u64 env_id = LAB_ENV_ID;
	const pg_flow_bar none = 0;
	struct pg_link_table table;

	if (bpf_map_lookup_elem(tables, &env_id, &table))
		fail("reading the guard's table");
	table.barred = table.sent_any = 0;
	if (bpf_map_update_elem(tables, &env_id, &table, BPF_EXIST) ||
	    bpf_map_update_elem(bars, &env_id, &none, BPF_ANY))
		fail("lifting the bars");
}

static void choose_policy(struct bench *bench)
{
	struct rng *rng = &bench->rng;
	struct judge_case *first = &bench->lab.cases[0];
	struct pg_link link = {};

	bench->policy = any_policy(rng, &bench->lab);
	bench->policy.generation = rng_below(rng, 3);
	memset(first, 0, sizeof(*first));
	lab_describe(&bench->lab, &bench->policy, first);
	link.header = first->header;
	link.flags = rng_one_in(rng, 2) ? PG_LINK_TARGETS : 0;
	if (bpf_map_update_elem(map_of(bench->lab.skeleton->maps.pg_links), &bench->device, &link,
				BPF_ANY))
		fail("the link");
}

static int run(struct bench *bench, const struct bpf_program *program,
	       const struct any_packet *packet, enum model_sender sender)
{
	const struct lab_frame frame = {
		.ethertype = packet->ethertype,
		.octets = packet->octets,
		.size = packet->size,
		.ifindex = bench->device,
	};

	bench->lab.cases[0].sender = (__u8)sender;
	return lab_run(&bench->lab, program, &frame, 1);
}

static uint8_t *transport_of(struct any_packet *packet)
{
	return packet->octets + (packet->ethertype == 0x0800 ? 20 : 40);
}

static uint8_t protocol_of(const struct any_packet *packet)
{
	return packet->octets[packet->ethertype == 0x0800 ? 9 : 6];
}

/* Something that may be answered, more often than chance would have it. */
static void choose_coming(struct bench *bench, struct any_packet *packet)
{
	struct rng *rng = &bench->rng;
	uint8_t *transport = transport_of(packet);

	any_packet(rng, packet);
	if (rng_one_in(rng, 2))
		any_spoil(rng, packet);
	transport = transport_of(packet);
	if (protocol_of(packet) == 6 && rng_one_in(rng, 2))
		transport[13] = 0x02;
	else if (protocol_of(packet) == 1 || protocol_of(packet) == 58)
		transport[0] = packet->ethertype == 0x0800 ? 8 : 128;
	RNG_PICK(rng, bench->recent) = *packet;
}

/* An ICMP error about the packet, to where it came from. */
static void quote(struct rng *rng, struct any_packet *packet)
{
	const bool v6 = packet->ethertype != 0x0800;
	const size_t header = v6 ? 40 : 20;
	const struct any_packet quoted = *packet;

	any_reverse(packet);
	packet->octets[v6 ? 6 : 9] = v6 ? 58 : 1;
	memset(packet->octets + header, 0, 8);
	packet->octets[header] = v6 ? (uint8_t)rng_below(rng, 6) : rng_one_in(rng, 2) ? 3 : 11;
	packet->size = header + 8 + (quoted.size < 60 ? quoted.size : 60);
	memcpy(packet->octets + header + 8, quoted.octets, packet->size - header - 8);
}

static void choose_answer(struct rng *rng, struct any_packet *packet)
{
	static const uint8_t flags[] = {0x12, 0x10, 0x04, 0x14, 0x11, 0x18, 0x02};
	const bool v6 = packet->ethertype != 0x0800;
	const uint8_t protocol = protocol_of(packet);
	uint8_t *transport = transport_of(packet);

	if (rng_one_in(rng, 3)) {
		quote(rng, packet);
		return;
	}
	any_reverse(packet);
	if (protocol == 6) {
		packet->size = (v6 ? 40U : 20U) + 20 + (rng_one_in(rng, 4) ? 1U : 0);
		transport[12] = 0x50;
		transport[13] = RNG_PICK(rng, flags);
	} else if (protocol == 1 || protocol == 58) {
		any_reverse(packet); /* it has no ports */
		transport[0] = v6 ? 129 : 0;
		if (v6)
			any_reverse(packet);
	}
}

static void choose_going(struct bench *bench, struct any_packet *packet)
{
	struct rng *rng = &bench->rng;
	const struct any_packet *last = &RNG_PICK(rng, bench->recent);

	if (last->size && rng_one_in(rng, 2)) {
		*packet = *last;
		choose_answer(rng, packet);
	} else {
		any_packet(rng, packet);
	}
	if (rng_one_in(rng, 4))
		any_spoil(rng, packet);
}

static void come(struct bench *bench)
{
	const struct judge_bpf *skeleton = bench->lab.skeleton;
	const uint64_t generation = bench->policy.generation;
	struct model_link_packet model;
	struct any_packet packet;

	choose_coming(bench, &packet);
	model_link_read(packet.ethertype, packet.octets, packet.size, &model);
	if (run(bench, skeleton->progs.judge_link_to, &packet, MODEL_SENDS_NOBODY) < 0)
		return; /* shorter than its IP header */
	run(bench, skeleton->progs.judge_ingress, &packet, MODEL_SENDS_NOBODY);
	model_link_came(&bench->seen, &model, packet.octets, packet.size, generation);
	if (bench->policy.installed && !bench->policy.none_in_force && !model.later)
		model_flows_came(&bench->flows, &model.packet, generation);
}

/* Whether the model knows something that the packet answers. */
static bool may_answer(struct bench *bench, const struct any_packet *packet,
		       const struct model_link_packet *model, enum model_sender sender)
{
	const uint64_t generation = bench->policy.generation;

	if (model->packet.defect || sender == MODEL_SENDS_FRAMES)
		return false;
	if (model->later)
		return sender == MODEL_SENDS_CONTROL || sender == MODEL_SENDS_SOCKET;
	if (sender == MODEL_SENDS_SOCKET && model->packet.protocol == 17)
		return model_flows_answers(&bench->flows, &model->packet, generation);
	return model_link_may_answer(&bench->seen, model, packet->octets, packet->size, sender,
				     generation);
}

/* Why the last packet was denied. */
static unsigned int take_reason(struct bench *bench)
{
	const __u64 env_id = LAB_ENV_ID;
	struct pg_counters now;
	unsigned int reason = PG_REASON_COUNT;

	if (bpf_map_lookup_elem(map_of(bench->lab.skeleton->maps.pg_link_counts), &env_id, &now))
		fail("the guard's counters");
	for (unsigned int i = 0; i < PG_REASON_COUNT; i++)
		if (now.reason[i] != bench->counters.reason[i])
			reason = i;
	bench->counters = now;
	return reason;
}

static void compare(struct bench *bench, const struct any_packet *packet,
		    const struct model_link_packet *model, enum model_sender sender, bool passed,
		    unsigned long number)
{
	const struct model_policy *policy = &bench->policy;
	const bool in_public = policy->phase < PG_PHASE_COUNT && policy->bank < PG_BANK_COUNT &&
			       policy->phases[policy->phase].mode == PG_MODE_PUBLIC;
	struct model_facts facts = model_link_facts(model, &bench->place, sender, in_public);
	const enum pg_reason plain = model_judge(&bench->policy, &facts);
	const bool may = may_answer(bench, packet, model, sender);
	enum pg_reason answering, got = PG_REASON_COUNT;
	bool same;

	facts.inbound = true;
	answering = may ? model_judge(&bench->policy, &facts) : plain;
	if (passed) {
		same = pg_reason_verdict(plain) || pg_reason_verdict(answering);
		bench->passed++;
		bench->answers += !pg_reason_verdict(plain);
	} else {
		got = take_reason(bench);
		same = got == plain || got == answering;
		bench->denied[plain]++;
	}
	bench->could += may && !pg_reason_verdict(plain) && pg_reason_verdict(answering);
	CHECK(&bench->check, same,
	      "case %lu, sender %u: %s, the model says %s or %s; ethertype %#x, %zu octets, next "
	      "%u",
	      number, sender, passed ? "passes" : lab_reason_name(got), lab_reason_name(plain),
	      lab_reason_name(answering), packet->ethertype, packet->size, protocol_of(packet));
}

static void go(struct bench *bench, unsigned long number)
{
	const enum model_sender sender =
		(enum model_sender)rng_below(&bench->rng, MODEL_SENDER_COUNT);
	struct model_link_packet model;
	struct any_packet packet;
	int passed;

	choose_going(bench, &packet);
	model_link_read(packet.ethertype, packet.octets, packet.size, &model);
	passed = run(bench, bench->lab.skeleton->progs.judge_link_from, &packet, sender);
	if (passed >= 0)
		compare(bench, &packet, &model, sender, passed, number);
}

static void try_all(struct bench *bench, unsigned long cases)
{
	for (unsigned long i = 0; i < cases; i++) {
		if (i % WORLD_SIZE == 0)
			any_world(&bench->rng, &bench->lab);
		if (i % SEEN_SIZE == 0)
			forget(bench);
		if (i % PER_POLICY == 0)
			choose_policy(bench);
		lift_bars(bench);
		if (rng_one_in(&bench->rng, 3))
			come(bench);
		else
			go(bench, i);
	}
	check_group(&bench->check, "the guard against the model");
	if (cases >= CASES)
		CHECK(&bench->check, bench->answers > cases / 2000, "only %lu answers",
		      bench->answers);
	check_group(&bench->check, "answers passed");
}

int main(void)
{
	static struct bench bench;

	lab_open(&bench.lab);
	bench.device = lab_device();
	bench.rng.state = lab_seed();
	make_addresses(&bench);
	try_all(&bench, lab_case_count(CASES));
	printf("# %lu passed, %lu of them answers of %lu that could be\n", bench.passed,
	       bench.answers, bench.could);
	for (unsigned int i = 0; i < PG_REASON_COUNT; i++)
		if (bench.denied[i])
			printf("# %9lu %s\n", bench.denied[i], lab_reason_name(i));
	lab_close(&bench.lab);
	return check_end(&bench.check);
}
