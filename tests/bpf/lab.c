// SPDX-License-Identifier: Apache-2.0
#include "lab.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <phasegate/abi/flow.h>

#include "compile/set_image.h"

#include "check.h"
#include "judge.skel.h"

#define ETHERNET_HEADER 14
#define ROOT_NEEDED	"bpf() and a network namespace of one's own need root"

static void __attribute__((noreturn)) fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(EXIT_FAILURE);
}

/* Slot 0 is never filled, and the last set's slot is beyond the end of the outer maps. */
static __u32 slot_of(size_t set, size_t sets)
{
	return set + 1 == sets ? PG_SLOT_MAX : (__u32)set + 1;
}

static int inner_map(struct bpf_map *outer, enum bpf_map_type type, __u32 key, __u32 value,
		     __u32 flags, __u32 slot)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = flags);
	int fd = bpf_map_create(type, "judge_inner", key, value, 2 * MODEL_LIST_MAX, &options);

	if (fd < 0)
		fail("creating an inner map");
	if (bpf_map_update_elem(bpf_map__fd(outer), &slot, &fd, BPF_ANY))
		fail("filling a slot");
	return fd;
}

/* Room for whatever lab_fill() puts into it. */
#define SET_NODES 16

static struct pg_set_node *make_set(struct bpf_map *outer, __u32 slot)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	const int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "judge_set", sizeof(__u32),
				      sizeof(struct pg_set_node), SET_NODES, &options);
	struct pg_set_node *nodes;

	if (fd < 0)
		fail("creating a set");
	nodes = mmap(NULL, SET_NODES * sizeof(*nodes), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (nodes == MAP_FAILED)
		fail("mapping a set");
	if (bpf_map_update_elem(bpf_map__fd(outer), &slot, &fd, BPF_ANY))
		fail("filling a slot");
	close(fd);
	return nodes;
}

static void make_sets(struct lab *lab)
{
	for (size_t i = 0; i < LAB_SETS; i++) {
		lab->sets[i].exists = i < LAB_WHOLE_SETS;
		lab->set_nodes[i] = lab->sets[i].exists ? make_set(lab->skeleton->maps.pg_sets,
								   slot_of(i, LAB_SETS))
							: NULL;
	}
	for (size_t i = 0; i < LAB_LEARNED; i++) {
		lab->learned_fds[i] = -1;
		lab->learned[i].exists = i < LAB_WHOLE_LEARNED;
		if (lab->learned[i].exists)
			lab->learned_fds[i] =
				inner_map(lab->skeleton->maps.pg_learned_sets, BPF_MAP_TYPE_HASH,
					  sizeof(struct pg_addr), sizeof(struct pg_learned),
					  BPF_F_NO_PREALLOC, slot_of(i, LAB_LEARNED));
	}
}

void lab_open(struct lab *lab)
{
	const __u64 env_id = LAB_ENV_ID;
	const pg_flow_bar not_barred = 0;

	memset(lab, 0, sizeof(*lab));
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (geteuid()) {
		printf("1..0 # SKIP " ROOT_NEEDED "\n");
		exit(CHECK_SKIPPED);
	}
	if (unshare(CLONE_NEWNET))
		fail("entering a network namespace");
	lab->skeleton = judge_bpf__open_and_load();
	if (!lab->skeleton)
		fail("loading the test programs");
	lab->cases_bytes = JUDGE_BATCH * sizeof(struct judge_case);
	lab->cases = mmap(NULL, lab->cases_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
			  bpf_map__fd(lab->skeleton->maps.judge_cases), 0);
	if (lab->cases == MAP_FAILED)
		fail("mapping the cases");
	make_sets(lab);
	if (bpf_map_update_elem(bpf_map__fd(lab->skeleton->maps.pg_flow_bars), &env_id, &not_barred,
				BPF_ANY))
		fail("opening the table of flows");
}

unsigned int lab_device(void)
{
	if (system("ip link add pgtest0 type veth peer name pgtest1 && "
		   "ip link set pgtest0 up && ip link set lo up"))
		fail("making a device");
	return if_nametoindex("pgtest0");
}

void lab_close(struct lab *lab)
{
	for (size_t i = 0; i < LAB_SETS; i++)
		if (lab->set_nodes[i])
			munmap(lab->set_nodes[i], SET_NODES * sizeof(*lab->set_nodes[i]));
	for (size_t i = 0; i < LAB_LEARNED; i++)
		if (lab->learned_fds[i] >= 0)
			close(lab->learned_fds[i]);
	munmap(lab->cases, lab->cases_bytes);
	judge_bpf__destroy(lab->skeleton);
}

static void clear(int fd)
{
	uint8_t key[32];

	while (!bpf_map_get_next_key(fd, NULL, key))
		if (bpf_map_delete_elem(fd, key))
			fail("clearing a set");
}

static void fill_set(struct pg_set_node *nodes, const struct model_set *set)
{
	struct pg_prefix prefixes[PG_TABLE_COUNT * MODEL_LIST_MAX];
	struct pg_address_set compiled;
	struct pg_set_image image;
	struct pg_error err = {};
	size_t count = 0;

	for (size_t i = 0; i < PG_TABLE_COUNT; i++) {
		for (size_t j = 0; j < set->tables[i].count; j++) {
			const struct model_prefix *from = &set->tables[i].list[j];

			prefixes[count] = (struct pg_prefix){
				.addr = lab_address(&from->address),
				.length = (uint8_t)from->length,
				.v4 = i == PG_TABLE_V4,
			};
			pg_prefix_mask(&prefixes[count++]);
		}
	}
	if (pg_compile_prefixes(prefixes, count, &compiled, &err) ||
	    pg_set_image_plan(&compiled, &image, &err) || image.nodes > SET_NODES) {
		fprintf(stderr, "compiling a set: %s\n", err.text);
		exit(EXIT_FAILURE);
	}
	memset(nodes, 0, SET_NODES * sizeof(*nodes));
	if (image.nodes)
		pg_set_image_write(&image, nodes);
	pg_address_set_clear(&compiled);
}

static void fill_host(struct lab *lab)
{
	const int addresses = bpf_map__fd(lab->skeleton->maps.pg_host_addresses);
	const int ports = bpf_map__fd(lab->skeleton->maps.pg_host_ports);
	const uint8_t present = 1;

	clear(addresses);
	clear(ports);
	for (size_t i = 0; i < lab->host.count; i++) {
		const struct pg_addr addr = lab_address(&lab->host.list[i]);

		if (bpf_map_update_elem(addresses, &addr, &present, BPF_ANY))
			fail("filling the host's addresses");
	}
	for (size_t i = 0; i < lab->host.port_count; i++) {
		const __be16 port = htons(lab->host.ports[i]);

		if (bpf_map_update_elem(ports, &port, &present, BPF_ANY))
			fail("filling the host's ports");
	}
}

void lab_fill(struct lab *lab)
{
	fill_host(lab);
	for (size_t i = 0; i < LAB_SETS; i++)
		if (lab->set_nodes[i])
			fill_set(lab->set_nodes[i], &lab->sets[i]);
	for (size_t i = 0; i < LAB_LEARNED; i++) {
		const struct model_learned *learned = &lab->learned[i];

		if (!learned->exists)
			continue;
		clear(lab->learned_fds[i]);
		for (size_t j = 0; j < learned->count; j++) {
			const struct pg_addr addr = lab_address(&learned->list[j]);
			/* One is the past of every machine, the other the future. */
			const struct pg_learned value = {
				.expires = learned->expired[j] ? 1 : UINT64_MAX};

			if (bpf_map_update_elem(lab->learned_fds[i], &addr, &value, BPF_ANY))
				fail("filling a learned set");
		}
	}
}

struct pg_addr lab_address(const struct model_address *address)
{
	struct pg_addr addr = {};

	if (address->family == 4) {
		addr.word[2] = htonl(0xffff);
		memcpy(&addr.word[3], address->octets, 4);
	} else if (address->family == 6) {
		memcpy(&addr, address->octets, sizeof(addr));
	}
	return addr;
}

static __u8 table_bits(const bool *named)
{
	__u8 bits = 0;

	for (unsigned int i = 0; i < PG_TABLE_COUNT; i++)
		bits |= (__u8)(named[i] ? 1U << i : 0);
	return bits;
}

static struct pg_phase_slot make_slot(const struct lab *lab, const struct model_phase *phase)
{
	struct pg_phase_slot slot = {
		.mode = (__u8)phase->mode,
		.tables = table_bits(phase->named),
		.flags = phase->dns_redirect ? PG_PHASE_DNS_REDIRECT : 0,
	};

	if (phase->set)
		slot.set = slot_of((size_t)(phase->set - lab->sets), LAB_SETS);
	if (phase->learned)
		slot.learned = slot_of((size_t)(phase->learned - lab->learned), LAB_LEARNED);
	return slot;
}

static struct pg_header make_header(const struct lab *lab, const struct model_policy *policy)
{
	struct pg_header header = {
		.magic = policy->installed ? PG_HEADER_MAGIC : PG_HEADER_MAGIC + 1,
		.state = LAB_STATE,
		.env_id = LAB_ENV_ID,
		.cgroup_id = LAB_ENV_ID,
		.flags = (policy->check_source ? PG_HEADER_CHECK_SOURCE : 0U) |
			 (policy->check_lo_source ? PG_HEADER_CHECK_LO_SOURCE : 0U) |
			 (policy->host ? PG_HEADER_HOST_PORTS : 0U),
		.ceiling_tables = table_bits(policy->ceiling_named),
	};

	if (policy->ceiling)
		header.ceiling = slot_of((size_t)(policy->ceiling - lab->sets), LAB_SETS);
	for (size_t i = 0; i < PG_PHASE_COUNT; i++) {
		header.slots[policy->bank % 2][i] = make_slot(lab, &policy->phases[i]);
		header.slots[1 - policy->bank % 2][i] = make_slot(lab, &policy->idle[i]);
	}
	return header;
}

void lab_describe(const struct lab *lab, const struct model_policy *policy,
		  struct judge_case *ret_case)
{
	ret_case->header = make_header(lab, policy);
	ret_case->word = policy->generation << 8 | policy->bank << 4 |
			 (policy->none_in_force ? 0 : policy->phase + 1);
}

struct pg_facts lab_facts(const struct model_facts *facts)
{
	static const __u8 defects[] = {
		[MODEL_SOUND] = 0,
		[MODEL_TRUNCATED] = PG_REASON_TRUNCATED,
		[MODEL_FRAGMENT] = PG_REASON_FRAGMENT,
		[MODEL_IP_OPTIONS] = PG_REASON_IP_OPTIONS,
		[MODEL_EXTENSION] = PG_REASON_EXTENSION,
		[MODEL_FRAME] = PG_REASON_FRAME,
	};
	const struct {
		bool holds;
		unsigned int bit;
	} bits[] = {
		{facts->packet, PG_FACT_PACKET},	 {facts->ipv6_header, PG_FACT_IPV6},
		{facts->kernel_nd, PG_FACT_KERNEL_ND},	 {facts->listener, PG_FACT_LISTENER},
		{facts->own_source, PG_FACT_OWN_SOURCE}, {facts->accepted, PG_FACT_ACCEPTED},
		{facts->hidden, PG_FACT_HIDDEN},	 {facts->on_lo, PG_FACT_TO_LO},
		{facts->inbound, PG_FACT_INBOUND},	 {facts->loopback, PG_FACT_LOOPBACK},
		{facts->member, PG_FACT_MEMBER},	 {facts->established, PG_FACT_ESTABLISHED},
	};
	struct pg_facts out = {
		.remote = lab_address(&facts->remote),
		.remote_port = htons(facts->remote_port),
		.protocol = facts->protocol,
		.defect = defects[facts->defect],
	};

	for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++)
		if (bits[i].holds)
			out.bits |= (__u16)bits[i].bit;
	return out;
}

int lab_run(struct lab *lab, const struct bpf_program *program, const struct lab_frame *frame,
	    unsigned int repeat)
{
	uint8_t data[ETHERNET_HEADER + LAB_PACKET_MAX] = {};
	struct __sk_buff context = {.ifindex = frame->ifindex, .gso_size = frame->gso_size};
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = data,
		    .data_size_in = (__u32)(ETHERNET_HEADER + frame->size), .repeat = (int)repeat);

	if (frame->size > LAB_PACKET_MAX) {
		errno = EMSGSIZE;
		return -1;
	}
	if (frame->ifindex || frame->gso_size) {
		options.ctx_in = &context;
		options.ctx_size_in = sizeof(context);
	}
	data[12] = (uint8_t)(frame->ethertype >> 8);
	data[13] = (uint8_t)frame->ethertype;
	memcpy(data + ETHERNET_HEADER, frame->octets, frame->size);
	lab->skeleton->bss->judge_next = 0;
	if (bpf_prog_test_run_opts(bpf_program__fd(program), &options))
		return -1;
	return (int)options.retval;
}

void lab_decide(struct lab *lab, unsigned int count)
{
	static const uint8_t nothing[40] = {0x45};
	const struct lab_frame frame = {.ethertype = 0x0800,
					.octets = nothing,
					.size = sizeof(nothing)};

	if (lab_run(lab, lab->skeleton->progs.judge_decide, &frame, count) != 1 ||
	    lab->skeleton->bss->judge_next != count)
		fail("running judge_decide");
}

struct model_address lab_parse(const char *text)
{
	struct model_address address = {.family = strchr(text, ':') ? 6 : 4};

	if (inet_pton(address.family == 4 ? AF_INET : AF_INET6, text, address.octets) != 1)
		fail(text);
	return address;
}

const char *lab_reason_name(unsigned int reason)
{
	switch ((enum pg_reason)reason) {
#define PG_X(symbol, value, verdict, name, text) \
	case PG_REASON_##symbol: \
		return name;
		PG_REASONS(PG_X)
#undef PG_X
	}
	return "(no reason)";
}

uint64_t lab_seed(void)
{
	const char *text = getenv("PHASEGATE_TEST_SEED");
	struct timespec now;
	uint64_t seed;

	if (text) {
		seed = strtoull(text, NULL, 0);
	} else {
		clock_gettime(CLOCK_REALTIME, &now);
		seed = (uint64_t)now.tv_sec * 1000000007U ^ (uint64_t)now.tv_nsec;
	}
	printf("# PHASEGATE_TEST_SEED=%llu\n", (unsigned long long)seed);
	return seed;
}

unsigned long lab_case_count(unsigned long otherwise)
{
	const char *text = getenv("PHASEGATE_TEST_CASES");

	return text ? strtoul(text, NULL, 0) : otherwise;
}
