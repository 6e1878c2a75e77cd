/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames that pass a veth's guard without a veth: its programs under BPF_PROG_TEST_RUN; and the
 * table in which it remembers what has passed (struct pg_link_table).
 */
#pragma once

#include <netinet/tcp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <phasegate/abi/header.h>
#include <phasegate/abi/link.h>

#include "check.h"
#include "kernel/kernel.h"
#include "lab.h"

#define PORT   7000
#define NUMBER 77

#define ACK TH_ACK
#define SYN TH_SYN

/* An Environment with one link: setup is public, run no-network. */
struct bench {
	struct check check;
	struct lab lab;
	struct pg_kernel *kernel;
	struct pg_header header;
	struct pg_state_value state;
	unsigned int ifindex;
	int tables, neighbours;
};

/* On one CPU, since each has places of its own (struct pg_link_seen). On failure it says why and
 * ends the process, as lab_open() does. */
void open_bench(struct bench *bench);
/* Returns what main() does. */
int close_bench(struct bench *bench);

/* host: the last octet of the host's station, from that of somebody's on. */
void put_link(struct bench *bench, uint32_t flags, uint8_t host);
void switch_to(struct bench *bench, enum pg_phase phase);

/* What differs from an ACK of somebody's, from the host. */
struct frame {
	bool v6, datagram, other_local;
	bool out;	 /* to somebody */
	uint8_t remote;	 /* added to the last octet of somebody's address */
	uint8_t flags;	 /* of TCP; 0: ACK */
	uint8_t station; /* its last octet */
	uint16_t port;	 /* added to the remote one */
	uint32_t number;
};

void come(struct bench *bench, const struct frame *frame);

void read_table(struct bench *bench, struct pg_link_table *ret);
void write_table(struct bench *bench, const struct pg_link_table *table);
/* asked: a SYN has gone out, to anybody. */
void empty_table(struct bench *bench, bool asked);

/* Whether it is known who sent the frame; whether the table has the number of an acknowledgement,
 * any flow of UDP. */
bool has_peer(struct bench *bench, const struct frame *frame);
bool has_number(struct bench *bench, uint32_t number);
bool has_flow(struct bench *bench);
