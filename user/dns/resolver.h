/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resolver in the path: takes the queries of one Environment, answers what its policy lets be
 * asked, and commits the addresses of an answer before the answer goes out. It knows nothing of
 * policies, sockets of clients or the kernel: those are behind callbacks. One thread; driven by one
 * descriptor.
 *
 *   query -> judge -> local name? -> cache? -> upstream (one question for all who ask it)
 *         -> chase a CNAME chain that ends nowhere -> commit -> judge again -> reply
 */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "net/addr.h"

/* Loading a policy never waits longer than this for DNS. */
#define PG_RESOLVER_LOAD_MS 5000

/* Questions under way to upstream servers at once; more are answered with SERVFAIL. */
#define PG_RESOLVER_IN_FLIGHT_MAX 1024
/* Clients that wait for an answer at once; more are answered with SERVFAIL. */
#define PG_RESOLVER_WAITING_MAX	  4096
/* What the cache may hold, in octets; the least recently used goes first. */
#define PG_RESOLVER_CACHE_MAX	  (8UL * 1024 * 1024)
/* CNAME targets that stay askable until their TTL, for forwarders that ask them again. */
#define PG_RESOLVER_TARGETS_MAX	  4096

struct pg_resolver;

enum pg_name_verdict {
	PG_NAME_DENIED,
	PG_NAME_OVER_BUDGET, /* allowed by a wildcard that too many names were asked under */
	PG_NAME_ALLOWED,
	PG_NAME_UNRESTRICTED, /* the phase is public */
};

/* What is done with a name that is denied. */
enum pg_denial {
	PG_DENIAL_NXDOMAIN, /* "no such name": clients go on at once */
	PG_DENIAL_REFUSED,
};

/* X(symbol, name): why a query was refused. Names are stable: they appear in events. */
#define PG_REFUSALS(X) \
	X(NAME, "name-not-allowed") \
	X(TYPE, "type-not-allowed") /* of record, for a name that is allowed */ \
	X(BUDGET, "name-budget")    /* of names under one wildcard, in this minute */

enum pg_refusal {
#define PG_X(symbol, name) PG_REFUSAL_##symbol,
	PG_REFUSALS(PG_X)
#undef PG_X
};

/* Where a query came from: a UDP address, or a TCP connection of the listener. */
struct pg_peer {
	uint64_t connection; /* 0: UDP */
	union {
		struct sockaddr any;
		struct sockaddr_in in4;
		struct sockaddr_in6 in6;
	} addr;
	socklen_t addr_size;
};

struct pg_resolver_hooks {
	/* Names are in lower case without final dot. */
	enum pg_name_verdict (*judge)(void *userdata, const char *name);
	/* Whether the phase in force allows the address; for PTR. */
	bool (*allows_address)(void *userdata, const struct pg_addr *addr);
	/*
	 * The name has this address for ttl seconds; asked by a client in any case, also if no
	 * phase's list has the name. A negative errno means that it could not be stored, and the
	 * client gets SERVFAIL.
	 */
	int (*commit)(void *userdata, const char *name, const struct pg_addr *addr, uint32_t ttl);
	/* Changes whenever judge or commit might say something else than before. */
	uint64_t (*generation)(void *userdata);
	/* Takes a reply for the peer of owner, both as given to pg_resolver_ask(). Size 0: there is
	 * none to what a TCP connection has sent. */
	void (*reply)(void *owner, const struct pg_peer *peer, const uint8_t *message, size_t size);
	/*
	 * Takes each socket that upstreams are asked with, before it is connected: who can send to
	 * it can forge answers. A negative errno means that it is not used. NULL: as they are made.
	 */
	int (*prepare_socket)(void *userdata, int fd, struct pg_error *err);
	/* A query for the name ("": it has none as text) was refused. May be NULL. */
	void (*refused)(void *userdata, const char *name, enum pg_refusal refusal);
	void *userdata;
};

/*
 * X(field): what is counted, since the start. Each query is in exactly one of those from "answered"
 * to "cancelled" in the end:
 *   answered   with an answer, or with NODATA or NXDOMAIN of the upstream
 *   denied     name or type
 *   failed     upstream failed, or the commit did
 *   overload   over one of the limits above, or over a wildcard's budget
 *   cancelled  whoever asked has gone
 * Of those answered or failed:
 *   cached     without asking upstream
 *   upstream   questions sent upstream, repeats and chases included
 */
#define PG_RESOLVER_STATS(X) \
	X(queries) \
	X(answered) \
	X(denied) \
	X(malformed) \
	X(failed) \
	X(overload) \
	X(cancelled) \
	X(cached) \
	X(upstream)

struct pg_resolver_stats {
#define PG_X(field) uint64_t field;
	PG_RESOLVER_STATS(PG_X)
#undef PG_X
};

int pg_resolver_new(const struct pg_resolver_hooks *hooks, enum pg_denial denial,
		    struct pg_resolver **ret_resolver, struct pg_error *err) PG_MUST_CHECK;
/* Queries under way end without a reply. */
void pg_resolver_free(struct pg_resolver *resolver);
static inline void pg_resolver_freep(struct pg_resolver **resolver)
{
	pg_resolver_free(*resolver);
}

/*
 * Upstream servers, asked from the network namespace netns_fd (-1: the caller's), which must stay
 * open as long as they are in use. *ret_upstream is never 0. Answers of different upstreams are
 * cached apart. Fails also if their sockets cannot be prepared.
 */
int pg_resolver_add_upstream(struct pg_resolver *resolver, const struct pg_endpoint *servers,
			     size_t count, int netns_fd, unsigned int *ret_upstream,
			     struct pg_error *err) PG_MUST_CHECK;
/*
 * Of those servers which are addresses of the namespace itself, as Docker's is, and of all but
 * those that were told by name, no answer is taken that leads elsewhere than to the networks there:
 * a CNAME, or an address behind a router. The first may ask others from inside, and processes there
 * can answer in a server's name: by lo, or by way of the host as long as nothing is denied to them.
 * The servers that are told must stay.
 */
void pg_resolver_keep_near(struct pg_resolver *resolver, unsigned int upstream, int netns_fd,
			   const struct pg_endpoint *told, size_t told_count);
/* Questions under way to it fail. */
void pg_resolver_remove_upstream(struct pg_resolver *resolver, unsigned int upstream);

/* A name with a fixed address, never asked upstream (hosts(5)). "localhost" and what is below it
 * are built in (RFC 6761, 6.3). The name is copied. */
int pg_resolver_add_local(struct pg_resolver *resolver, const char *name,
			  const struct pg_addr *addr, struct pg_error *err) PG_MUST_CHECK;

/*
 * One message of a client. Replies come through the hook, before the return or later; to what is
 * no query there is none. What the cache does not have is asked of the client's upstream.
 */
struct pg_resolver_client {
	void *owner;
	struct pg_peer peer;
	unsigned int upstream;
	/* Names of one label go here instead, if it is not 0. */
	unsigned int own_upstream;
	bool tcp;
};
void pg_resolver_ask(struct pg_resolver *resolver, const struct pg_resolver_client *client,
		     const uint8_t *message, size_t size);

/* The owner has gone: no reply to it from now on. */
void pg_resolver_cancel(struct pg_resolver *resolver, const void *owner);

/*
 * Asks for A and AAAA of every name, commits, and waits until all have an answer or timeout_ms has
 * passed; what is late goes on in the background and commits, too. At most
 * PG_RESOLVER_IN_FLIGHT_MAX / 8 questions are under way at once. failed, if not NULL, is called for
 * each name that has no address now, with the reason. Returns the number of those names, or a
 * negative errno; -ECANCELED if interrupt_fd (-1: none) became readable. The judge is not asked.
 */
typedef void (*pg_resolver_unresolved)(void *userdata, const char *name, const char *reason);
int pg_resolver_load(struct pg_resolver *resolver, const char *const *names, size_t count,
		     unsigned int upstream, unsigned int own_upstream, int timeout_ms,
		     int interrupt_fd, pg_resolver_unresolved failed, void *userdata,
		     struct pg_error *err) PG_MUST_CHECK;

/* Becomes readable whenever pg_resolver_process() has something to do. Does not block. */
int pg_resolver_fd(const struct pg_resolver *resolver);
int pg_resolver_process(struct pg_resolver *resolver, struct pg_error *err) PG_MUST_CHECK;

const struct pg_resolver_stats *pg_resolver_stats(const struct pg_resolver *resolver);
