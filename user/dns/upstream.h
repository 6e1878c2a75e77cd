/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking the trusted servers one question at a time over c-ares. Each server has a channel of its
 * own: c-ares 1.18 starts every query at its first server again, so with a dead one at the head
 * each name would wait for its time-out.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "net/addr.h"

/* How long one server is waited for. Three attempts fit into PG_NAMES_LOAD_MS. */
#define PG_UPSTREAM_ATTEMPT_MS 1200
/* A server that did not answer is asked last for this long. */
#define PG_UPSTREAM_DOWN_S     30

struct pg_upstream;

enum pg_query_state {
	PG_QUERY_IDLE,
	PG_QUERY_ASKING,
	PG_QUERY_AGAIN, /* the attempt failed; pg_upstream_ask() makes the next one */
	PG_QUERY_DONE,
};

struct pg_query {
	struct pg_upstream *upstream;
	const char *name; /* absolute, without the final dot */
	uint16_t type;
	enum pg_query_state state;
	unsigned int server, attempts;
	uint64_t sent;
	const char *failure; /* when DONE: NULL, or why there is no answer */
	bool lasting;	     /* the failure is the server's answer (there is no such name) */
};

/*
 * Takes a response that answers the query's question. Returns 0, or a negative errno if it is
 * malformed, which counts as a failed attempt.
 */
typedef int (*pg_upstream_answer)(void *userdata, struct pg_query *query, const uint8_t *message,
				  size_t size);

/* Registers the sockets at the epoll descriptor; the data of their events is a non-zero u64. */
int pg_upstream_new(const struct pg_endpoint *servers, size_t count, int epoll_fd,
		    unsigned int attempt_ms, pg_upstream_answer answer, void *userdata,
		    struct pg_upstream **ret_upstream, struct pg_error *err) PG_MUST_CHECK;

/* Queries under way end silently. */
void pg_upstream_free(struct pg_upstream *upstream);
static inline void pg_upstream_freep(struct pg_upstream **upstream)
{
	pg_upstream_free(*upstream);
}

/* Starts the query (IDLE, with name and type set) or its next attempt (AGAIN). */
void pg_upstream_ask(struct pg_upstream *upstream, struct pg_query *query);

/* Handles an epoll event of one of the sockets. */
void pg_upstream_event(struct pg_upstream *upstream, uint64_t data, uint32_t events);

/* Handles time-outs. */
void pg_upstream_time_out(struct pg_upstream *upstream);

/* Nanoseconds until pg_upstream_time_out() has something to do; UINT64_MAX: nothing to wait for. */
uint64_t pg_upstream_next(struct pg_upstream *upstream);

/* 0, or the negative errno of a socket that could not be watched. */
int pg_upstream_take_fault(struct pg_upstream *upstream);
