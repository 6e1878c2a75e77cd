/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sockets that DNS is redirected to: UDP and TCP, IPv4 and IPv6, on loopback in one network
 * namespace of an Environment. Takes messages in and replies out; what they mean is the resolver's
 * business. One thread; driven by one descriptor.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "net/addr.h"
#include "resolver.h"

/* TCP connections at once; the one that was idle longest goes when another comes. */
#define PG_LISTENER_CONNECTIONS_MAX 64
/* A connection that sends or takes nothing for this long is closed (RFC 7766, 6.2.3). */
#define PG_LISTENER_IDLE_S	    10
/* Queries of one connection that wait for their answer; more are read later. */
#define PG_LISTENER_PIPELINE_MAX    64
/* Messages handled in one call, so that others get their turn. */
#define PG_LISTENER_BATCH	    64
/* Of a longer message, in octets, so much is handed over. No query is nearly as long. */
#define PG_LISTENER_MESSAGE_MAX	    4096

/*
 * Memory: 36 KiB, and 4.3 KiB for each connection; for each whose client does not take its replies,
 * up to 128 KiB more. That is 9 MiB if all are such. In the kernel at most 1 MiB for each of the
 * two UDP sockets, and 64 KiB in and 256 KiB out for each connection.
 */

/* UDP and TCP over IPv4, then over IPv6. */
#define PG_LISTENER_SOCKETS 4

struct pg_listener;

struct pg_listener_options {
	int netns_fd; /* -1: the caller's; need not stay open */
	/* Loopback addresses: IPv4, IPv6. A port is fixed by the caller. */
	struct pg_endpoint endpoints[2];
	/* Sockets of an earlier listener, -1 for none: those at the endpoints are used, and are -1
	 * then. NULL: none. */
	int *inherited;
	/* Called for each socket before it is bound; a negative errno ends the opening. */
	int (*prepare)(void *userdata, int fd, struct pg_error *err);
	/*
	 * A message; tcp tells what the reply may be as long as. It may be answered at once or
	 * later. May not close the listener.
	 */
	void (*query)(void *userdata, struct pg_listener *listener, const struct pg_peer *peer,
		      bool tcp, const uint8_t *message, size_t size);
	void *userdata;
};

/*
 * Sets lo up in the namespace and opens the sockets. The calling thread ends in the namespace in
 * which it began. IPv6 is left out where the namespace has none. -EADDRINUSE if a socket of
 * somebody else is at the IPv4 endpoint, or, with ipv6_required, at the IPv6 one; otherwise
 * pg_listener_has_ipv6() says whether there is one.
 */
int pg_listener_open(const struct pg_listener_options *options, bool ipv6_required,
		     struct pg_listener **ret_listener, struct pg_error *err) PG_MUST_CHECK;
void pg_listener_close(struct pg_listener *listener);
static inline void pg_listener_closep(struct pg_listener **listener)
{
	pg_listener_close(*listener);
}

/* One of its sockets, which stays the listener's; -1: it has none of the kind. */
int pg_listener_socket(const struct pg_listener *listener, unsigned int number);
bool pg_listener_has_ipv6(const struct pg_listener *listener);
/* Cookie of the network namespace; 0 before Linux 5.14. */
uint64_t pg_listener_netns_cookie(const struct pg_listener *listener);

/* Becomes readable whenever pg_listener_process() has something to do. Does not block. */
int pg_listener_fd(const struct pg_listener *listener);
/* -ENOTCONN: somebody has destroyed a socket (ss -K); close the listener and open another. Being
 * out of descriptors is no error: connections wait until there is one. */
int pg_listener_process(struct pg_listener *listener, struct pg_error *err) PG_MUST_CHECK;

/* Sends the reply; to a peer that has gone or does not read it is dropped. Size 0: there is none,
 * since the message was no query. That ends a connection: who speaks something else goes on so. */
void pg_listener_send(struct pg_listener *listener, const struct pg_peer *peer,
		      const uint8_t *message, size_t size);
