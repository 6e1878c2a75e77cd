/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The production programs on a cgroup of the test's own, in a network namespace of its own, with a
 * header that redirects DNS: what real sockets meet.
 */
#pragma once

#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

#include <phasegate/abi/counter.h>
#include <phasegate/abi/event.h>
#include <phasegate/abi/header.h>
#include <phasegate/abi/hook.h>

#include "place.h"

#define WORLD_LISTENER4 "127.77.1.2"
#define WORLD_LISTENER6 "::1"
#define WORLD_PORT	5300

/* Index of the state. */
#define WORLD_STATE 7

/* The phases of the header: an allowlist without entries, nothing, everything. */
#define WORLD_ALLOWLIST	 PG_PHASE_SETUP
#define WORLD_NO_NETWORK PG_PHASE_RUN
#define WORLD_PUBLIC	 PG_PHASE_VERIFIER

#define WORLD_EVENTS_MAX 16

struct bpf_link;
struct phasegate_bpf;
struct ring_buffer;

struct world {
	struct phasegate_bpf *skeleton;
	struct bpf_link *links[PG_HOOK_COUNT];
	struct ring_buffer *ring;
	struct place place;
	struct pg_header header;
	uint64_t generation;
	/* Of the last world_take_events(); of all kinds, the parked ones whole. */
	struct pg_event_parked events[WORLD_EVENTS_MAX];
	size_t event_count;
	size_t event_total; /* all since it was last set to 0 */
};

/* Without root it ends the process with CHECK_SKIPPED; on failure it says why and ends it. */
void world_open(struct world *world);
void world_close(struct world *world);

/* A network namespace with nothing but lo. */
void world_unshare(void);

/*
 * A link with 10.9.0.1/24 and fd09::1/64 on which .2 and ::2 are known and nobody answers; exits on
 * failure.
 */
void world_add_link(struct world *world);

/* Writes .header and puts the phase, of bank 0, in force. */
void world_switch(struct world *world, enum pg_phase phase);
/* Puts a phase of a bank in force, or none (-1), in .generation. */
void world_set_state(struct world *world, unsigned int bank, int phase);
/* Writes .header. */
void world_write_header(struct world *world);

/* A socket in the Environment, with a limit of time; -1 with errno. */
int world_client(const struct world *world, int family, int type, int protocol);

/* Sockets outside the Environment. */
struct world_listener {
	int udp[2], tcp[2]; /* IPv4, IPv6 */
};

/* At the address, IPv6 too if it is WORLD_LISTENER4, as the listener of env_id; 0: without mark. */
struct world_listener world_listen(const struct world *world, const char *address, uint16_t port,
				   uint64_t env_id);
void world_unlisten(struct world_listener *listener);

uint64_t world_counted(const struct world *world, enum pg_reason reason);
uint64_t world_events_lost(const struct world *world);
uint64_t world_events_suppressed(const struct world *world);
void world_take_events(struct world *world);

/* Gives the phase of bank 0 a set of learned addresses, empty, and returns its map. */
int world_learn(struct world *world, enum pg_phase phase);
/* Puts an address in text form into that map, or takes it out; false: errno says why. */
bool world_learn_address(int learned, const char *text, uint64_t expires);
bool world_forget_address(int learned, const char *text);

struct pg_addr world_address(const char *text);

/* An address in text form with a port, as a socket of its family has it. */
struct world_name {
	struct sockaddr_storage storage;
	socklen_t size;
};

struct world_name world_name(const char *address, uint16_t port);
bool world_name_is(const struct world_name *name, const char *address, uint16_t port);

/* errno of sending so many octets, or 0; to NULL: where the socket is connected to. */
int world_send(int fd, const struct world_name *to, size_t size);
