// SPDX-License-Identifier: Apache-2.0
/*
 * Random policies and random packets, out and in, to lo and to another device, through the whole of
 * the hooks: each verdict, each counter and the record of flows against the model. Two hundred
 * thousand by default; PHASEGATE_TEST_CASES=10000000 is the number to run by hand, a few minutes.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <phasegate/abi/counter.h>
#include <phasegate/abi/dns.h>
#include <phasegate/abi/flow.h>
#include <phasegate/abi/member.h>
#include <phasegate/abi/set.h>

#include "any.h"
#include "check.h"
#include "judge.skel.h"

#define CASES	   200000
#define WORLD_SIZE 4096 /* cases with the same sets */
#define FLOWS_SIZE 256	/* cases with the same record of flows */
#define PER_POLICY 32
#define RECENT	   16 /* packets that may be answered */

/* Who has sockets at these ports, at all addresses and of both families. */
#define PLAIN_PORT  443
#define HIDDEN_PORT 80

static const char *const own[] = {"10.0.0.1", "2001:db8::1"};
static const char *const members[] = {"10.0.0.2", "2001:db8::2"};

struct bench {
	struct check check;
	struct lab lab;
	struct rng rng;
	struct model_policy policy;
	struct model_place place;
	struct model_flows flows;
	struct any_packet recent[2][RECENT]; /* in, out */
	bool within,
		together; /* the plain sockets are the Environment's; members' addresses count */
	unsigned int device;
	struct pg_counters expected;
	unsigned long refused;
};

static void fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(EXIT_FAILURE);
}

static void put_address(int map, const char *text, const void *value, struct model_address *list,
			size_t *count)
{
	const struct model_address address = lab_parse(text);
	/* Of the same layout as struct pg_member_address. */
	const struct pg_own_key key = {.env_id = LAB_ENV_ID, .addr = lab_address(&address)};

	if (bpf_map_update_elem(map, &key, value, BPF_ANY))
		fail(text);
	list[(*count)++] = address;
}

static void make_addresses(struct bench *bench)
{
	const struct judge_bpf *skeleton = bench->lab.skeleton;
	struct model_place *place = &bench->place;
	const pg_own_value anywhere = 0;
	const __u8 present = 1;

	_Static_assert(sizeof(struct pg_own_key) == sizeof(struct pg_member_address),
		       "put_address");
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		put_address(bpf_map__fd(skeleton->maps.pg_own), own[i], &anywhere, place->own,
			    &place->own_count);
		put_address(bpf_map__fd(skeleton->maps.pg_member_addresses), members[i], &present,
			    place->members, &place->member_count);
	}
}

/* They stay open. */
static void listen_at(int family, int type, uint16_t port, bool hidden)
{
	const struct sockaddr_in in4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	const struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	const struct sockaddr *name =
		family == AF_INET ? (const struct sockaddr *)&in4 : (const struct sockaddr *)&in6;
	const int fd = socket(family, type | SOCK_CLOEXEC, 0), on = 1;
	const unsigned int mark = PG_HIDDEN_MARK;

	if (fd < 0 ||
	    (family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on))) ||
	    (hidden && setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof(mark))) ||
	    bind(fd, name, family == AF_INET ? sizeof(in4) : sizeof(in6)) ||
	    (type == SOCK_STREAM && listen(fd, 1)))
		fail("a socket at a port");
}

static void make_sockets(struct bench *bench)
{
	static const int families[] = {AF_INET, AF_INET6}, types[] = {SOCK_STREAM, SOCK_DGRAM};
	struct model_place *place = &bench->place;

	for (size_t i = 0; i < 4; i++) {
		listen_at(families[i / 2], types[i % 2], PLAIN_PORT, false);
		listen_at(families[i / 2], types[i % 2], HIDDEN_PORT, true);
	}
	place->ports[0] = PLAIN_PORT;
	place->ports[1] = HIDDEN_PORT;
	place->port_count = 2;
}

static void clear_flows(struct bench *bench)
{
	const struct judge_bpf *skeleton = bench->lab.skeleton;
	const int flows = bpf_map__fd(skeleton->maps.pg_flows);
	const int counts = bpf_map__fd(skeleton->maps.pg_flow_counts);
	const struct pg_flow_count none = {};
	struct pg_flow_key key;

	while (!bpf_map_get_next_key(flows, NULL, &key))
		bpf_map_delete_elem(flows, &key);
	for (__u32 i = 0; i <= LAB_STATE; i++)
		bpf_map_update_elem(counts, &i, &none, BPF_ANY);
	model_flows_clear(&bench->flows);
}

/* What is in force next, in one of few generations. */
static void choose_policy(struct bench *bench)
{
	struct rng *rng = &bench->rng;

	bench->policy = any_policy(rng, &bench->lab);
	bench->policy.generation = rng_below(rng, 3);
	bench->policy.check_lo_source = rng_one_in(rng, 3);
	bench->within = rng_one_in(rng, 2);
	bench->together = rng_one_in(rng, 2);
	bench->place.receivers[0] = bench->within ? MODEL_WITHIN : MODEL_OUTSIDE;
	/* To its own sockets everybody may send. */
	bench->place.receivers[1] = bench->within ? MODEL_WITHIN : MODEL_HIDDEN;
}

static void describe(struct bench *bench)
{
	struct judge_case *first = &bench->lab.cases[0];

	memset(first, 0, sizeof(*first));
	lab_describe(&bench->lab, &bench->policy, first);
	/* Every socket is in the root or below it. */
	if (bench->within)
		first->header.cgroup_id = 1;
	if (bench->together)
		first->header.flags |= PG_HEADER_MEMBER_ADDRESSES;
}

/* Whether what comes in is seen at all. */
static bool is_in_force(const struct model_policy *policy)
{
	return policy->installed && !policy->none_in_force;
}

static enum pg_reason expect_out(struct bench *bench, const struct model_packet *packet, bool on_lo)
{
	const uint64_t generation = bench->policy.generation;
	struct model_facts facts = model_facts_of(packet, &bench->place, on_lo);
	enum pg_reason reason;

	facts.member = facts.member && bench->together;
	facts.inbound = !on_lo && model_flows_answers(&bench->flows, packet, generation);
	reason = model_judge(&bench->policy, &facts);
	if (pg_reason_verdict(reason) == PG_ALLOW && !on_lo && !facts.inbound)
		model_flows_sent(&bench->flows, packet);
	return reason;
}

static enum pg_reason expect_in(struct bench *bench, const struct model_packet *packet, bool on_lo)
{
	if (!is_in_force(&bench->policy))
		return PG_REASON_NO_POLICY;
	if (!on_lo)
		model_flows_came(&bench->flows, packet, bench->policy.generation);
	return PG_REASON_INGRESS;
}

static void compare(struct bench *bench, const struct any_packet *packet, enum pg_reason expected,
		    int verdict, bool out, bool on_lo, unsigned long number)
{
	const struct pg_counters *got = &bench->lab.skeleton->bss->judge_counters;
	const enum pg_count what = out ? PG_COUNT_PACKET : PG_COUNT_INGRESS;
	bool same;

	bench->expected.reason[expected]++;
	bench->expected.verdict[what][pg_reason_verdict(expected)]++;
	same = !memcmp(&bench->expected, got, sizeof(*got));
	CHECK(&bench->check, same && verdict == (int)pg_reason_verdict(expected),
	      "case %lu, %s %s: not %s; ethertype %#x, %zu octets, next %u, phase %u, mode %u",
	      number, out ? "to" : "from", on_lo ? "lo" : "a device", lab_reason_name(expected),
	      packet->ethertype, packet->size, packet->octets[packet->ethertype == 0x0800 ? 9 : 6],
	      bench->policy.phase,
	      bench->policy.phase < PG_PHASE_COUNT ? bench->policy.phases[bench->policy.phase].mode
						   : 0);
	if (!same)
		for (unsigned int i = 0; i < PG_REASON_COUNT; i++)
			if (got->reason[i] > bench->expected.reason[i])
				printf("#   it is %s\n", lab_reason_name(i));
	bench->expected = *got;
}

/* The answer to something of late, or something new. */
static void choose_packet(struct bench *bench, bool out, struct any_packet *packet)
{
	struct rng *rng = &bench->rng;
	const struct any_packet *last = &RNG_PICK(rng, bench->recent[!out]);

	if (last->size && rng_one_in(rng, 3)) {
		*packet = *last;
		any_reverse(packet);
	} else {
		any_packet(rng, packet);
	}
	RNG_PICK(rng, bench->recent[out]) = *packet;
	if (!rng_one_in(rng, 3))
		any_spoil(rng, packet);
}

static void try(struct bench *bench, unsigned long number)
{
	const struct judge_bpf *skeleton = bench->lab.skeleton;
	const bool out = !rng_one_in(&bench->rng, 3), on_lo = rng_one_in(&bench->rng, 3);
	struct any_packet packet;
	const struct lab_frame *frame;
	struct model_packet model;
	int verdict;

	choose_packet(bench, out, &packet);
	frame = &(const struct lab_frame){
		.ethertype = packet.ethertype,
		.octets = packet.octets,
		.size = packet.size,
		.ifindex = on_lo ? 0 : bench->device,
	};
	model_read_packet(packet.ethertype, packet.octets, packet.size, &model);
	verdict = lab_run(&bench->lab,
			  out ? skeleton->progs.judge_egress : skeleton->progs.judge_ingress, frame,
			  1);
	if (verdict < 0 && errno == EINVAL) {
		bench->refused++; /* shorter than its IP header */
		return;
	}
	compare(bench, &packet, (out ? expect_out : expect_in)(bench, &model, on_lo), verdict, out,
		on_lo, number);
}

/* The exact tuples in the kernel are those of the model. */
static void compare_flows(struct bench *bench)
{
	const int fd = bpf_map__fd(bench->lab.skeleton->maps.pg_flows);
	size_t wrong = 0;

	for (size_t i = 0; i < bench->flows.count; i++) {
		const struct model_flow *expected = &bench->flows.list[i];
		const struct pg_flow_key key = {
			.env_id = LAB_ENV_ID,
			.local = lab_address(&expected->ends.local),
			.remote = lab_address(&expected->ends.remote),
			.local_port = htons(expected->ends.local_port),
			.remote_port = htons(expected->ends.remote_port),
			.protocol = IPPROTO_UDP,
		};
		struct pg_flow flow;

		if (bpf_map_lookup_elem(fd, &key, &flow) ||
		    (flow.direction == PG_FLOW_OUTBOUND) != expected->from_inside ||
		    (!expected->from_inside && flow.generation != expected->generation))
			wrong++;
	}
	CHECK(&bench->check, !wrong, "%zu of %zu flows are not recorded as they were", wrong,
	      bench->flows.count);
	CHECK(&bench->check, bench->flows.count < MODEL_FLOWS_MAX, "more flows than the model has");
}

static void try_all(struct bench *bench, unsigned long cases)
{
	for (unsigned long i = 0; i < cases; i++) {
		if (i % WORLD_SIZE == 0)
			any_world(&bench->rng, &bench->lab);
		if (i % FLOWS_SIZE == 0)
			clear_flows(bench);
		if (i % PER_POLICY == 0)
			choose_policy(bench);
		describe(bench);
		try(bench, i);
		if (i % FLOWS_SIZE == FLOWS_SIZE - 1)
			compare_flows(bench);
	}
	check_group(&bench->check, "hooks against the model");
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(void)
{
	const unsigned long cases = lab_case_count(CASES);
	static struct bench bench;
	double start;

	lab_open(&bench.lab);
	bench.device = lab_device();
	bench.rng.state = lab_seed();
	make_addresses(&bench);
	make_sockets(&bench);
	start = seconds();
	try_all(&bench, cases);
	printf("# %lu cases in %.1f s; %lu the kernel did not take\n", cases, seconds() - start,
	       bench.refused);
	for (unsigned int i = 0; i < PG_REASON_COUNT; i++)
		if (bench.expected.reason[i])
			printf("# %9llu %s\n", bench.expected.reason[i], lab_reason_name(i));
	lab_close(&bench.lab);
	return check_end(&bench.check);
}
