// SPDX-License-Identifier: Apache-2.0
#include "link_frames.h"

#include <errno.h>
#include <linux/if_ether.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "kernel/kernel_internal.h"
#include "kernel/link.h"
#include "net/addr.h"

#define REMOTE4 "\x0a\x09\x00\x02"
#define LOCAL4	"\x0a\x09\x00\x01"
#define REMOTE6 "\xfd\x09\0\0\0\0\0\0\0\0\0\0\0\0\0\x02"
#define LOCAL6	"\xfd\x09\0\0\0\0\0\0\0\0\0\0\0\0\0\x01"

static void put_remote(const struct frame *frame, uint8_t *v4, uint8_t *v6)
{
	memcpy(v4, REMOTE4, 4);
	memcpy(v6, REMOTE6, 16);
	v4[3] = (uint8_t)(v4[3] + frame->remote);
	v6[15] = (uint8_t)(v6[15] + frame->remote);
}

static size_t put_header(const struct frame *frame, uint8_t *to)
{
	const uint8_t protocol = frame->datagram ? IPPROTO_UDP : IPPROTO_TCP;
	struct ip6_hdr v6 = {.ip6_hops = 64, .ip6_nxt = protocol};
	struct iphdr v4 = {.version = 4, .ihl = 5, .ttl = 64, .protocol = protocol};
	struct ethhdr ethernet = {.h_dest = {2, 0, 0, 0, 0, 1}, .h_source = {2, 0, 0, 0, 0, 2}};

	ethernet.h_source[5] = (uint8_t)(ethernet.h_source[5] + frame->station);
	ethernet.h_proto = htons(frame->v6 ? ETH_P_IPV6 : ETH_P_IP);
	memcpy(to, &ethernet, sizeof(ethernet));
	memcpy(&v4.saddr, LOCAL4, 4);
	memcpy(&v4.daddr, LOCAL4, 4);
	memcpy(&v6.ip6_src, LOCAL6, 16);
	memcpy(&v6.ip6_dst, LOCAL6, 16);
	put_remote(frame, (uint8_t *)(frame->out ? &v4.daddr : &v4.saddr),
		   (uint8_t *)(frame->out ? &v6.ip6_dst : &v6.ip6_src));
	v4.daddr += htonl(frame->other_local);
	v6.ip6_dst.s6_addr[15] = (uint8_t)(v6.ip6_dst.s6_addr[15] + 2 * frame->other_local);
	v6.ip6_vfc = 6 << 4;
	if (frame->v6)
		memcpy(to + sizeof(ethernet), &v6, sizeof(v6));
	else
		memcpy(to + sizeof(ethernet), &v4, sizeof(v4));
	return sizeof(ethernet) + (frame->v6 ? sizeof(v6) : sizeof(v4));
}

void come(struct bench *bench, const struct frame *frame)
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

	put_remote(frame, (uint8_t *)&v4, (uint8_t *)&addr);
	return frame->v6 ? addr : pg_addr_from_v4(v4);
}

void read_table(struct bench *bench, struct pg_link_table *ret)
{
	CHECK(&bench->check, !bpf_map_lookup_elem(bench->tables, &bench->header.env_id, ret),
	      "no table");
}

void write_table(struct bench *bench, const struct pg_link_table *table)
{
	CHECK(&bench->check,
	      !bpf_map_update_elem(bench->tables, &bench->header.env_id, table, BPF_EXIST),
	      "the table: %s", strerror(errno));
}

void empty_table(struct bench *bench, bool asked)
{
	static const struct pg_link_neighbours nobody;
	const struct pg_link_table table = {.asked_any = asked};

	write_table(bench, &table);
	CHECK(&bench->check,
	      !bpf_map_update_elem(bench->neighbours, &bench->header.env_id, &nobody, BPF_EXIST),
	      "the neighbours: %s", strerror(errno));
}

static bool has_place(const struct pg_link_peer *peers, size_t count, const struct pg_addr *addr)
{
	for (size_t i = 0; i < count; i++)
		if (!memcmp(&peers[i].addr, addr, sizeof(*addr)))
			return true;
	return false;
}

bool has_peer(struct bench *bench, const struct frame *frame)
{
	const struct pg_addr addr = remote_of(frame);
	struct pg_link_neighbours neighbours = {};
	struct pg_link_table table = {};

	read_table(bench, &table);
	CHECK(&bench->check,
	      !bpf_map_lookup_elem(bench->neighbours, &bench->header.env_id, &neighbours),
	      "no neighbours");
	return has_place(table.peers, PG_LINK_PEERS, &addr) ||
	       has_place(neighbours.peers, PG_LINK_NEIGHBOURS, &addr);
}

bool has_number(struct bench *bench, uint32_t number)
{
	struct pg_link_table table = {};

	read_table(bench, &table);
	for (size_t i = 0; i < PG_LINK_ACKS; i++)
		if (table.acks[i].number == NUMBER + number)
			return true;
	return false;
}

bool has_flow(struct bench *bench)
{
	struct pg_link_table table = {};
	size_t found = 0;

	read_table(bench, &table);
	for (size_t i = 0; i < PG_LINK_DATAGRAMS; i++)
		found += table.datagrams[i].protocol == IPPROTO_UDP;
	return found;
}

void switch_to(struct bench *bench, enum pg_phase phase)
{
	struct pg_error err = {};

	bench->state.generation++;
	bench->state.phase = phase;
	CHECK(&bench->check,
	      !pg_state_write(bench->kernel, bench->header.state, &bench->state, &err), "%s",
	      err.text);
}

void put_link(struct bench *bench, uint32_t flags, uint8_t host)
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
	bench->neighbours = bpf_map__fd(bench->kernel->skeleton->maps.pg_link_neighbours);
	return true;
}

void open_bench(struct bench *bench)
{
	cpu_set_t first;

	CPU_ZERO(&first);
	CPU_SET(sched_getcpu(), &first);
	sched_setaffinity(0, sizeof(first), &first);
	lab_open(&bench->lab);
	if (open_kernel(bench)) {
		put_link(bench, 0, 0);
		return;
	}
	CHECK(&bench->check, false, "no kernel part");
	check_group(&bench->check, "loading");
	exit(close_bench(bench));
}

int close_bench(struct bench *bench)
{
	pg_kernel_free(bench->kernel);
	lab_close(&bench->lab);
	return check_end(&bench->check);
}
