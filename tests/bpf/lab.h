/* SPDX-License-Identifier: Apache-2.0 */
/* The loaded test programs, and the way from the model's plain values to the ABI's. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "judge.h"
#include "model.h"

struct judge_bpf;
struct bpf_program;

/* The Environment of every header that lab_header() makes. */
#define LAB_ENV_ID 0x1234
/* Index of its state. */
#define LAB_STATE  5

#define LAB_SETS    16
#define LAB_LEARNED 4

/* Sets below this one exist. */
#define LAB_WHOLE_SETS	  10
/* Learned sets below this one exist. */
#define LAB_WHOLE_LEARNED 3

struct lab {
	struct judge_bpf *skeleton;
	struct judge_case *cases; /* JUDGE_BATCH of them */
	size_t cases_bytes;
	/* Written by the test, put into the maps by lab_fill(). */
	struct model_set sets[LAB_SETS];
	struct model_learned learned[LAB_LEARNED];
	struct model_host host;
	struct pg_set_node *set_nodes[LAB_SETS]; /* NULL: it does not exist */
	int learned_fds[LAB_LEARNED];
};

/*
 * Enters a network namespace of its own, so that no socket of the machine has a say, and loads the
 * programs. Without root it ends the process with CHECK_SKIPPED; on failure it says why and ends it
 * as failed.
 */
void lab_open(struct lab *lab);
void lab_close(struct lab *lab);
/* Makes a device other than lo in that namespace, both of them up, and returns its index. */
unsigned int lab_device(void);

/* Replaces the content of every set. */
void lab_fill(struct lab *lab);

struct pg_addr lab_address(const struct model_address *address);
/* The header and the state of the case. */
void lab_describe(const struct lab *lab, const struct model_policy *policy,
		  struct judge_case *ret_case);
struct pg_facts lab_facts(const struct model_facts *facts);

/* Where a packet is sent. */
struct lab_frame {
	unsigned int ethertype;
	const uint8_t *octets; /* from the IP header on */
	size_t size;
	unsigned int ifindex; /* 0: loopback */
	unsigned int gso_size;
};

#define LAB_PACKET_MAX 2048

/*
 * Runs the program on the frame, repeat times, from the first case on. Returns the program's
 * return value, or -1 with errno if the kernel did not take the frame.
 */
int lab_run(struct lab *lab, const struct bpf_program *program, const struct lab_frame *frame,
	    unsigned int repeat);

/* The same for judge_decide, with a frame of no meaning. */
void lab_decide(struct lab *lab, unsigned int count);

/* v4 or v6 in text form. */
struct model_address lab_parse(const char *text);

const char *lab_reason_name(unsigned int reason);

/* The seed of a random test: PHASEGATE_TEST_SEED, or a new one; it is printed. */
uint64_t lab_seed(void);
/* PHASEGATE_TEST_CASES, or the default. */
unsigned long lab_case_count(unsigned long otherwise);
