/* SPDX-License-Identifier: Apache-2.0 */
/* The names of the benchmark's DNS, and what its table and its client share. */
#pragma once

#include "bench.h"

#define NAMES_SERVER  "192.0.2.1" /* scripts/bench gives it to the server's namespace */
#define NAMES_PORT    53
/* Lookups of one round that are timed one by one; the round ends with them. */
#define NAMES_SAMPLES 8192
/* Queries without an answer, where as many as possible are asked. */
#define NAMES_WINDOW  64

/*
 * All names have one form, 8 hexadecimal digits below one of these, so that a number is an address
 * (10.0.0.0 and up) without a table, and all messages are of one size.
 */
#define NAMES_ALLOWED "bench"
#define NAMES_DENIED  "other" /* as long as the allowed one */
#define NAMES_PARENT  "example"
#define NAMES_MAX     (1U << 24)
#define NAMES_CACHED  1 /* number of the name that is asked for again and again */

/* ---- names_message.c */

#define NAMES_QUERY_SIZE 40
struct names_query {
	uint8_t octets[NAMES_QUERY_SIZE];
};
/* A question for the address of a name. */
void names_query_make(struct names_query *ret_query, uint16_t id, uint32_t number,
		      const char *below);
/* Turns a query of size octets into its answer, in place; returns the size (0: not a query). */
size_t names_answer(uint8_t *message, size_t size, size_t room);
/*
 * The answer's address in network order, 0 for "no such name"; another answer ends the program. Its
 * id is in *ret_id.
 */
uint32_t names_read(const uint8_t *message, size_t size, uint16_t *ret_id);
uint32_t names_address(uint32_t number);

/* ---- names_client.c: the client, in a process of its own */

enum names_kind {
	NAMES_FRESH,   /* never asked before */
	NAMES_SAME,    /* one and the same */
	NAMES_REFUSED, /* by the policy */
};

struct names_work {
	const char *name;
	void (*run)(const struct names_work *work, uint64_t length_ns);
	enum names_kind kind;
	int type;      /* of the socket that asks, or of the one that connects to the answer */
	bool confined; /* in the Environment, otherwise in the cgroup without a policy */
};

/* In the order of their tables. */
enum names_group {
	NAMES_GROUP_LOOKUPS,
	NAMES_GROUP_FLOODS,
	NAMES_GROUP_CONNECTS,
};
#define NAMES_LOOKUPS  7
#define NAMES_FLOODS   4
#define NAMES_CONNECTS 2
extern const struct names_work names_lookups[NAMES_LOOKUPS], names_floods[NAMES_FLOODS],
	names_connects[NAMES_CONNECTS];
/* The lookup without a policy that this one is compared with; itself, if it is one. */
size_t names_direct(size_t lookup);

struct names_result {
	uint32_t next;	/* number of the next fresh name; goes on from round to round */
	size_t samples; /* lookups timed */
	double took_us[NAMES_SAMPLES];
	uint64_t operations, took_ns;
	uint64_t denied; /* of connects */
	bool done;
};
/* Body of the client's process: argv = NAME "names" MEMORY GROUP INDEX MILLISECONDS. */
int names_client_main(char **argv);
