/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking the trusted servers one question at a time over c-ares. What c-ares does: sockets, TCP
 * where UDP is not enough, matching a response to its question, and finding out that a server is
 * not there. What it does not do as needed here: c-ares 1.18 starts every query at its first server
 * again, so with a dead one at the head each name would wait for its time-out; it forgets a query
 * when an attempt times out, so a slow server would never be heard; its query ids come from a
 * generator that is not always seeded; and it keeps a UDP port as long as there is something to
 * ask.
 *
 * Against who can send in a server's name but does not see what it is asked, the letters of a
 * question have random case (draft-vixie-dnsext-dns0x20), which the response must repeat. If it
 * does not, it may be forged, or the server's way: the question is asked again over TCP.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "net/addr.h"
#include "wire.h"

/* How long one server is waited for before the next is asked, too. Three fit into
 * PG_RESOLVER_LOAD_MS and into what resolvers of clients wait (5 s). */
#define PG_UPSTREAM_ATTEMPT_MS	1200
/* A server that did not answer is asked last for this long. */
#define PG_UPSTREAM_DOWN_S	30
#define PG_UPSTREAM_SERVERS_MAX 16

struct pg_upstream;
struct pg_attempt;

/* Why there is no answer. */
struct pg_upstream_failure {
	const char *text;
	uint16_t ede;	/* what the client is told (RFC 8914) */
	bool final;	/* no other attempt would help */
	bool is_silent; /* of the server, which may be down */
};

struct pg_query {
	const struct pg_dns_name *name; /* must stay until the query is done */
	uint16_t type;
	unsigned int attempts;			   /* made so far */
	const struct pg_upstream_failure *failure; /* when done: NULL, or why there is no answer */
	/* The upstream's own: */
	struct pg_upstream *upstream;
	struct pg_attempt *under_way;
	unsigned int awaited; /* attempts under way that are not late yet */
	unsigned int server;
	uint64_t started;
	bool sending;
	bool over_tcp; /* it must not be asked over UDP any more */
};

struct pg_upstream_options {
	const struct pg_endpoint *servers;
	size_t count;
	int netns_fd; /* that the sockets are made in; -1: the caller's */
	/* Where the sockets are registered. The data of their events has tag in its upper 16 bits.
	 */
	int epoll_fd;
	uint16_t tag;
	unsigned int attempt_ms;
	/* As in struct pg_resolver_hooks. */
	int (*prepare_socket)(void *userdata, int fd, struct pg_error *err);
	/*
	 * Reads a response of a server to the query's question with the code NOERROR or NXDOMAIN.
	 * A negative errno says that it is malformed, or -EXDEV that the server may not say so,
	 * which counts as a failed attempt.
	 */
	int (*read)(void *userdata, struct pg_query *query, const struct pg_addr *server,
		    const uint8_t *message, size_t size);
	/* The query has ended. The upstream does not touch it from here on. */
	void (*done)(void *userdata, struct pg_query *query);
	void *userdata;
};

int pg_upstream_new(const struct pg_upstream_options *options, struct pg_upstream **ret_upstream,
		    struct pg_error *err) PG_MUST_CHECK;

/* Queries under way end silently. */
void pg_upstream_free(struct pg_upstream *upstream);
static inline void pg_upstream_freep(struct pg_upstream **upstream)
{
	pg_upstream_free(*upstream);
}

/* Starts the query, of which name and type are set and all else is zero. It may be done before this
 * returns. */
void pg_upstream_ask(struct pg_upstream *upstream, struct pg_query *query);

/* Handles an epoll event of one of the sockets. */
void pg_upstream_event(struct pg_upstream *upstream, uint64_t data, uint32_t events);

/* Handles time-outs. */
void pg_upstream_time_out(struct pg_upstream *upstream, uint64_t now);

/* When pg_upstream_time_out() has something to do (CLOCK_BOOTTIME); UINT64_MAX: nothing to wait
 * for. Queries that are added later do not make it earlier. */
uint64_t pg_upstream_next(const struct pg_upstream *upstream, uint64_t now);
