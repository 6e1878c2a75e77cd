// SPDX-License-Identifier: Apache-2.0
/*
 * The packet parser against the model: every protocol and next header, options, fragments, cut at
 * every length, and random changes of all of them. What the parser says must hold in both
 * directions, and so must the verdict of the whole way from packet to reason.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <phasegate/abi/counter.h>

#include "any.h"
#include "check.h"
#include "judge.skel.h"
#include "lab.h"
#include "random.h"

#define CASES	      100000
#define ETHERTYPE_IP4 0x0800
#define ETHERTYPE_IP6 0x86dd

/* A device that is not loopback. */

static const uint8_t next_headers[] = {0,  4,  6,   17,	 33,  41,  43,	44,  47,  50,  51, 58,
				       59, 60, 132, 135, 136, 139, 140, 253, 254, 255, 1,  2};

struct bench {
	struct check check;
	struct lab lab;
	struct rng rng;
	struct model_policy policy;
	unsigned int device;
	unsigned long refused, reasons[PG_REASON_COUNT];
};

static void check_facts(struct bench *bench, const struct any_packet *packet,
			const struct model_packet *model, bool egress, const char *what)
{
	const struct judge_case *got = &bench->lab.cases[0];
	const struct model_facts expected = {.packet = true,
					     .ipv6_header = model->ipv6_header,
					     .defect = model->defect};
	const struct pg_facts bits = lab_facts(&expected);
	const struct pg_addr source = lab_address(&model->source);
	const struct pg_addr destination = lab_address(&model->destination);
	const __be16 source_port = htons(model->source_port);
	const __be16 destination_port = htons(model->destination_port);
	const bool sound = model->defect == MODEL_SOUND;
	bool same = got->facts.defect == bits.defect &&
		    (got->facts.bits & ~PG_FACT_SYN) == bits.bits &&
		    !memcmp(&got->facts.local, egress ? &source : &destination, sizeof(source)) &&
		    !memcmp(&got->facts.remote, egress ? &destination : &source, sizeof(source)) &&
		    got->icmp_type == model->icmp_type;

	if (sound)
		same = same && got->facts.protocol == model->protocol &&
		       got->facts.local_port == (egress ? source_port : destination_port) &&
		       got->facts.remote_port == (egress ? destination_port : source_port) &&
		       got->tcp_flags == model->tcp_flags &&
		       got->tcp_payload == model->tcp_payload &&
		       !!(got->facts.bits & PG_FACT_SYN) == model->opens;
	CHECK(&bench->check, same,
	      "%s, %s: ethertype %#x, %zu octets, %02x.., next %u: defect %u bits %#x protocol %u "
	      "icmp %u flags %#x",
	      what, egress ? "egress" : "ingress", packet->ethertype, packet->size,
	      packet->size ? packet->octets[0] : 0, model->protocol, got->facts.defect,
	      got->facts.bits, got->facts.protocol, got->icmp_type, got->tcp_flags);
}

/*
 * The namespace has no socket, so on lo no socket receives; the test run's own sender is neither a
 * stream nor a raw socket.
 */
static const char *const own[] = {"10.0.0.1", "2001:db8::1"};
static struct model_place place;

static void check_path(struct bench *bench, const struct any_packet *packet,
		       const struct model_packet *model, bool loopback, const char *what)
{
	const struct model_facts facts = model_facts_of(model, &place, loopback);
	const enum pg_reason expected = model_judge(&bench->policy, &facts);
	const unsigned int got = bench->lab.cases[0].reason;

	bench->reasons[expected]++;
	CHECK(&bench->check, got == expected,
	      "%s: ethertype %#x, %zu octets, next %u, %s: %s instead of %s", what,
	      packet->ethertype, packet->size, model->protocol, loopback ? "lo" : "device",
	      lab_reason_name(got), lab_reason_name(expected));
}

static bool run(struct bench *bench, const struct any_packet *packet,
		const struct bpf_program *program, unsigned int device)
{
	const struct lab_frame frame = {
		.ethertype = packet->ethertype,
		.octets = packet->octets,
		.size = packet->size,
		.ifindex = device,
	};
	struct judge_case *first = &bench->lab.cases[0];

	memset(first, 0, sizeof(*first));
	lab_describe(&bench->lab, &bench->policy, first);
	if (lab_run(&bench->lab, program, &frame, 1) == 1 &&
	    bench->lab.skeleton->bss->judge_next == 1)
		return true;
	/* A test run makes no packet that is shorter than its IP header. */
	CHECK(&bench->check,
	      errno == EINVAL && packet->size < (packet->ethertype == ETHERTYPE_IP6 ? 40 : 20),
	      "a test run of %zu octets failed: %s", packet->size, strerror(errno));
	bench->refused++;
	return false;
}

static void try(struct bench *bench, const struct any_packet *packet, const char *what)
{
	const struct judge_bpf *skeleton = bench->lab.skeleton;
	struct model_packet model;

	model_read_packet(packet->ethertype, packet->octets, packet->size, &model);
	if (!run(bench, packet, skeleton->progs.judge_parse_egress, 0))
		return;
	check_facts(bench, packet, &model, true, what);
	if (run(bench, packet, skeleton->progs.judge_parse_ingress, 0))
		check_facts(bench, packet, &model, false, what);
	if (run(bench, packet, skeleton->progs.judge_path, 0))
		check_path(bench, packet, &model, true, what);
	if (run(bench, packet, skeleton->progs.judge_path, bench->device))
		check_path(bench, packet, &model, false, what);
}

static void choose_policy(struct bench *bench)
{
	struct rng *rng = &bench->rng;
	struct model_phase *phase;

	bench->policy = (struct model_policy){
		.installed = true,
		.phase = rng_below(rng, PG_PHASE_COUNT),
		.bank = rng_below(rng, 2),
		.check_source = rng_one_in(rng, 2),
		.check_lo_source = rng_one_in(rng, 2),
		.ceiling = &bench->lab.sets[1],
		.ceiling_named = {rng_one_in(rng, 4)},
	};
	for (size_t i = 0; i < PG_PHASE_COUNT; i++)
		bench->policy.phases[i].mode = bench->policy.idle[i].mode = PG_MODE_PUBLIC;
	phase = &bench->policy.phases[bench->policy.phase];
	phase->mode = PG_MODE_NO_NETWORK + rng_below(rng, 3);
	phase->set = &bench->lab.sets[0];
	memset(phase->named, true, sizeof(phase->named));
	phase->dns_redirect = rng_one_in(rng, 2);
}

static void make_sets(struct bench *bench)
{
	struct model_set *entries = &bench->lab.sets[0], *ceiling = &bench->lab.sets[1];

	entries->tables[PG_TABLE_V4] =
		(struct model_table){.count = 1, .list = {{lab_parse("10.0.0.1"), 32}}};
	entries->tables[PG_TABLE_V6] =
		(struct model_table){.count = 1, .list = {{lab_parse("2001:db8::"), 126}}};
	ceiling->tables[PG_TABLE_V4] =
		(struct model_table){.count = 1, .list = {{lab_parse("10.0.0.9"), 32}}};
	lab_fill(&bench->lab);
}

static void make_own(struct bench *bench)
{
	const int fd = bpf_map__fd(bench->lab.skeleton->maps.pg_own);
	const pg_own_value present = 0;

	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		const struct model_address address = lab_parse(own[i]);
		const struct pg_own_key key = {.env_id = LAB_ENV_ID, .addr = lab_address(&address)};

		place.own[place.own_count++] = address;
		if (bpf_map_update_elem(fd, &key, &present, BPF_ANY))
			exit(EXIT_FAILURE);
	}
}

static void try_every_protocol(struct bench *bench)
{
	struct any_packet packet;

	for (unsigned int next = 0; next < 256; next++) {
		for (unsigned int i = 0; i < 4; i++) {
			choose_policy(bench);
			any_packet4(&bench->rng, &packet, (uint8_t)next);
			try(bench, &packet, "protocol");
			any_packet6(&bench->rng, &packet, (uint8_t)next);
			try(bench, &packet, "next header");
		}
	}
	check_group(&bench->check, "every protocol and next header");
}

static void try_every_length(struct bench *bench)
{
	struct any_packet packet;

	for (size_t i = 0; i < sizeof(next_headers); i++) {
		for (size_t size = 0; size <= 80; size++) {
			choose_policy(bench);
			any_packet4(&bench->rng, &packet, next_headers[i]);
			packet.size = size < 60 ? size : 60;
			try(bench, &packet, "cut IPv4");
			any_packet6(&bench->rng, &packet, next_headers[i]);
			packet.size = size;
			try(bench, &packet, "cut IPv6");
		}
	}
	printf("# the kernel refused to make %lu packets shorter than their IP header\n",
	       bench->refused);
	check_group(&bench->check, "cut at every length");
}

static void try_every_first_octet(struct bench *bench)
{
	struct any_packet packet;

	for (unsigned int octet = 0; octet < 256; octet++) {
		choose_policy(bench);
		any_packet4(&bench->rng, &packet, 17);
		packet.octets[0] = (uint8_t)octet;
		try(bench, &packet, "IPv4 version and length");
		any_packet6(&bench->rng, &packet, 17);
		packet.octets[0] = (uint8_t)octet;
		try(bench, &packet, "IPv6 version");
	}
	check_group(&bench->check, "every version and header length");
}

static void try_random(struct bench *bench, unsigned long cases)
{
	struct any_packet packet;

	for (unsigned long i = 0; i < cases; i++) {
		if (i % 16 == 0)
			choose_policy(bench);
		any_packet(&bench->rng, &packet);
		any_spoil(&bench->rng, &packet);
		try(bench, &packet, "random");
	}
	check_group(&bench->check, "random packets");
}

int main(void)
{
	static struct bench bench;

	lab_open(&bench.lab);
	bench.device = lab_device();
	bench.rng.state = lab_seed();
	make_sets(&bench);
	make_own(&bench);
	try_every_protocol(&bench);
	try_every_first_octet(&bench);
	try_every_length(&bench);
	try_random(&bench, lab_case_count(CASES));
	for (unsigned int i = 0; i < PG_REASON_COUNT; i++)
		if (bench.reasons[i])
			printf("# %8lu %s\n", bench.reasons[i], lab_reason_name(i));
	lab_close(&bench.lab);
	return check_end(&bench.check);
}
