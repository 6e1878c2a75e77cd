/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel side must answer, said a second time: plain lists and flags, in the order of
 * docs/verdicts.md, without maps, masks or any code of bpf/. Only the words are shared (reasons,
 * modes).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <phasegate/abi/mode.h>
#include <phasegate/abi/reason.h>
#include <phasegate/abi/set.h>

#define MODEL_LIST_MAX 8

struct model_address {
	unsigned int family; /* 4 or 6; of the header or sockaddr, so ::ffff:10.0.0.1 can be 6 */
	uint8_t octets[16];
};

struct model_prefix {
	struct model_address address;
	unsigned int length;
};

struct model_table {
	size_t count;
	struct model_prefix list[MODEL_LIST_MAX];
};

struct model_set {
	bool exists;
	struct model_table tables[PG_TABLE_COUNT];
};

struct model_learned {
	bool exists;
	size_t count;
	struct model_address list[MODEL_LIST_MAX];
	bool expired[MODEL_LIST_MAX];
};

struct model_host {
	size_t count, port_count;
	struct model_address list[MODEL_LIST_MAX];
	uint16_t ports[MODEL_LIST_MAX];
};

struct model_phase {
	unsigned int mode;
	const struct model_set *set;
	bool named[PG_TABLE_COUNT];	     /* the families that the policy says the set has */
	const struct model_learned *learned; /* NULL: none */
	bool dns_redirect;
};

struct model_policy {
	bool installed;
	bool none_in_force; /* of its phases */
	unsigned int phase, bank;
	uint64_t generation;
	struct model_phase phases[PG_PHASE_COUNT]; /* of the bank in force */
	struct model_phase idle[PG_PHASE_COUNT];   /* of the other */
	const struct model_set *ceiling;
	bool ceiling_named[PG_TABLE_COUNT];
	bool check_source, check_lo_source; /* of every packet; of those to lo */
	const struct model_host
		*host; /* of whose addresses only the ports are open; NULL: no limit */
};

enum model_defect {
	MODEL_SOUND,
	MODEL_TRUNCATED,
	MODEL_FRAGMENT,
	MODEL_IP_OPTIONS,
	MODEL_EXTENSION,
	MODEL_FRAME, /* at the veth only */
};

struct model_facts {
	bool packet;  /* from a packet's header, not from a sockaddr */
	bool on_lo;   /* the packet's device is lo */
	bool on_link; /* at the veth, where the source is always checked */
	bool ipv6_header;
	bool kernel_nd, listener, hidden, own_source, accepted, inbound, loopback, member,
		established;
	enum model_defect defect;
	struct model_address remote;
	uint16_t remote_port;
	uint8_t protocol;
};

enum pg_reason model_judge(const struct model_policy *policy, const struct model_facts *facts);

/* What can be read off a packet, which starts with its IP header. */
struct model_packet {
	enum model_defect defect;
	bool ipv6_header;
	bool addressed; /* source and destination could be read */
	struct model_address source, destination;
	/* The rest only if there is no defect. */
	uint8_t protocol;
	bool ported;
	uint16_t source_port, destination_port;
	bool opens; /* first segment of a TCP connection */
	bool tcp;
	uint8_t tcp_flags;
	bool tcp_payload;
	/* Also of ICMPv6 directly behind a hop-by-hop header of eight octets. */
	bool icmpv6;
	uint8_t icmp_type;
};

/* From the transport header on, into a packet whose protocol is known. */
void model_read_transport(const uint8_t *transport, size_t size, struct model_packet *ret);
void model_read_packet(unsigned int ethertype, const uint8_t *octets, size_t size,
		       struct model_packet *ret);

/* Whether an entry opens the protocol. */
bool model_is_opened(uint8_t protocol);
bool model_is_loopback(const struct model_address *address);
/* Multicast, or broadcast in every network namespace. */
bool model_is_for_many(const struct model_address *address);
/* An IPv4-mapped address is its IPv4 address. */
bool model_same(const struct model_address *a, const struct model_address *b);

/* Who receives on lo at a port, whatever the address. */
enum model_receiver {
	MODEL_NOBODY,
	MODEL_WITHIN, /* a socket of the Environment */
	MODEL_OUTSIDE,
	MODEL_HIDDEN, /* a socket of Phasegate's */
};

/* What is known of where the Environment is. */
struct model_place {
	size_t own_count, member_count, port_count;
	struct model_address own[MODEL_LIST_MAX], members[MODEL_LIST_MAX];
	uint16_t ports[MODEL_LIST_MAX];
	enum model_receiver receivers[MODEL_LIST_MAX];
};

/*
 * The flows of an Environment: who spoke first, of each pair of ends. A packet that hides its ports
 * or where it goes bars what it might have been the first of.
 */
#define MODEL_FLOWS_MAX 4096

struct model_ends {
	struct model_address local, remote;
	uint16_t local_port, remote_port;
};

struct model_flow {
	struct model_ends ends;
	bool from_inside;
	uint64_t generation; /* in which something last came in */
};

struct model_flows {
	struct model_flow list[MODEL_FLOWS_MAX];
	uint16_t cells[2 * MODEL_FLOWS_MAX]; /* places in list plus 1, by a hash of the ends */
	size_t count;
	struct model_address barred[MODEL_LIST_MAX * 4];
	size_t barred_count;
	bool all_barred;
};

void model_flows_clear(struct model_flows *flows);
/* Whether what is sent answers what came in, in this generation. */
bool model_flows_answers(struct model_flows *flows, const struct model_packet *packet,
			 uint64_t generation);
/* The packet has gone out, not as an answer; in public if its headers could not be read. */
void model_flows_sent(struct model_flows *flows, const struct model_packet *packet);
void model_flows_came(struct model_flows *flows, const struct model_packet *packet,
		      uint64_t generation);

/* The facts of a packet whose sender is neither a stream nor a raw socket. */
struct model_facts model_facts_of(const struct model_packet *packet,
				  const struct model_place *place, bool on_lo);

/*
 * At the veth. What has come in, by the order of coming: the kernel's record of it is smaller, so
 * an answer to something in here may pass, and must not pass to anything else.
 */
#define MODEL_SEEN_MAX 512

struct model_seen_flow {
	struct model_address remote;
	uint16_t local_port, remote_port;
	uint8_t protocol;
	uint64_t generation;
};

struct model_seen {
	struct model_seen_flow flows[MODEL_SEEN_MAX];
	size_t next;
};

enum model_sender {
	MODEL_SENDS_NOBODY,
	MODEL_SENDS_CONTROL,
	MODEL_SENDS_SOCKET,
	MODEL_SENDS_RAW,
	MODEL_SENDS_FRAMES,
	MODEL_SENDER_COUNT,
};

struct model_link_packet {
	struct model_packet packet;
	size_t transport; /* its offset */
	bool later;	  /* a fragment, and not the first */
};

void model_link_read(unsigned int ethertype, const uint8_t *octets, size_t size,
		     struct model_link_packet *ret);
struct model_facts model_link_facts(const struct model_link_packet *link,
				    const struct model_place *place, enum model_sender sender,
				    bool in_public);
void model_link_came(struct model_seen *seen, const struct model_link_packet *link,
		     const uint8_t *octets, size_t size, uint64_t generation);
/* Whether it may be the kernel's answer to something. */
bool model_link_may_answer(const struct model_seen *seen, const struct model_link_packet *link,
			   const uint8_t *octets, size_t size, enum model_sender sender,
			   uint64_t generation);
