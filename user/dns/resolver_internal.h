/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the resolver share. Who does what:
 *
 *   resolver.c  the object, its upstreams, its descriptor
 *   ask.c       a client's query, from its octets to the first verdict
 *   judge.c     whether a name and a type may be asked
 *   question.c  questions under way to upstreams and who waits for them
 *   release.c   an answer, from its commit to the reply
 *   load.c      names that are asked without a client
 *   cache.c     answers that are kept
 *   targets.c   CNAME targets that stay askable
 *   local.c     names with fixed addresses
 */
#pragma once

#include <sys/queue.h>

#include "answer.h"
#include "base/hash.h"
#include "cache.h"
#include "local.h"
#include "query.h"
#include "reply.h"
#include "resolver.h"
#include "targets.h"
#include "upstream.h"

/* Lists of questions; a power of two. */
#define PG_RESOLVER_BUCKETS PG_RESOLVER_IN_FLIGHT_MAX

/* Largest reply over UDP, to a client that says that it takes that much. Nothing is fragmented on
 * loopback. */
#define PG_RESOLVER_UDP_MAX 4096

struct pg_load;

/* A query of a client, as long as it has no reply. */
struct pg_asking {
	void *owner;
	struct pg_peer peer;
	bool tcp;
	struct pg_dns_query query;
	uint64_t generation; /* at which it was judged */
	bool own;	     /* the policy allows the name itself */
	bool cached;	     /* nobody was asked for it */
	/* Else, or also: the name that is allowed and that led to this one; "": none. */
	char original[PG_DNS_TEXT];
};

/* Somebody who waits for the answer to a question: a client, or a load. */
struct pg_waiter {
	TAILQ_ENTRY(pg_waiter) entry;
	struct pg_load *load; /* NULL: a client */
	size_t load_name;
	struct pg_asking asking;
};
TAILQ_HEAD(pg_waiters, pg_waiter);

/* A question under way. */
struct pg_question {
	struct pg_query query; /* first: the upstream knows only that */
	struct pg_resolver *resolver;
	LIST_ENTRY(pg_question) entry;
	struct pg_waiters waiters;
	struct pg_answer_key key; /* its name is the one below */
	uint64_t hash;
	struct pg_dns_name name;
	struct pg_dns_name target; /* asked now: the name, or where its chain ended */
	unsigned int chases;
	struct pg_answer *answer; /* so far */
};
LIST_HEAD(pg_questions, pg_question);

struct pg_resolver_upstream {
	LIST_ENTRY(pg_resolver_upstream) entry;
	unsigned int id;
	struct pg_upstream *upstream;
	/* Of pg_resolver_keep_near(), -1: what all its servers say is believed. */
	int near_netns_fd;
	const struct pg_endpoint *told;
	size_t told_count;
};

struct pg_resolver {
	struct pg_resolver_hooks hooks;
	enum pg_denial denial;
	unsigned int attempt_ms;
	int epoll_fd, timer_fd;
	uint64_t armed; /* what the timer is set to; 0: not set */
	struct pg_hash_key key;
	LIST_HEAD(pg_upstreams, pg_resolver_upstream) upstreams;
	unsigned int last_upstream;
	struct pg_cache *cache;
	struct pg_targets *targets;
	struct pg_local *local;
	struct pg_questions questions[PG_RESOLVER_BUCKETS];
	unsigned int in_flight, waiting;
	LIST_HEAD(pg_loads, pg_load) loads;
	struct pg_resolver_stats stats;
	int fault; /* 0, or the negative errno of a timer that could not be set */
	uint8_t reply[PG_DNS_MESSAGE_MAX];
};

/* As pg_resolver_new(), with another time for an attempt than PG_UPSTREAM_ATTEMPT_MS. */
int pg_resolver_new_tuned(const struct pg_resolver_hooks *hooks, enum pg_denial denial,
			  unsigned int attempt_ms, struct pg_resolver **ret_resolver,
			  struct pg_error *err) PG_MUST_CHECK;

/* NULL: it was removed. */
struct pg_upstream *pg_resolver_upstream(const struct pg_resolver *resolver, unsigned int id);

/* The namespace that answers of the server must not lead out of, or -1. */
int pg_resolver_near_netns(const struct pg_resolver *resolver, unsigned int id,
			   const struct pg_addr *server);

/* Sets the timer unless it is set early enough. more: there is something to do at once. */
void pg_resolver_arm(struct pg_resolver *resolver, bool more);

/* judge.c */

enum pg_decision {
	PG_DECISION_FORWARD,
	PG_DECISION_DENY_NAME,
	PG_DECISION_DENY_TYPE,
	PG_DECISION_OVER_BUDGET,
};

/* Whether the type is a question about the server or a zone and never a record of a name. */
bool pg_resolver_is_meta_type(uint16_t type);

/* Judges the query's name and type, and notes in asking at which generation and by which name. */
enum pg_decision pg_resolver_judge(struct pg_resolver *resolver, struct pg_asking *asking);

/* release.c */

/* Ends the query in another way than with an answer. */
void pg_resolver_refuse(struct pg_resolver *resolver, const struct pg_asking *asking,
			enum pg_decision decision);

enum pg_failing {
	PG_FAILING_FAILED,   /* the upstream, or the commit */
	PG_FAILING_OVERLOAD, /* a limit is reached */
};

/* Ends the query with SERVFAIL. */
void pg_resolver_fail(struct pg_resolver *resolver, const struct pg_asking *asking,
		      enum pg_failing failing, uint16_t ede, const char *text);

/* Ends the query with the answer, as it is. */
void pg_resolver_answer(struct pg_resolver *resolver, const struct pg_asking *asking,
			const struct pg_answer *answer, uint32_t age);

/* Writes and sends; counts nothing. */
void pg_resolver_reply(struct pg_resolver *resolver, const struct pg_asking *asking,
		       const struct pg_reply *reply);

/*
 * Commits the answer's addresses, judges again if need be, and replies. age: seconds for which the
 * answer was kept. The asking's generation is that of its verdict.
 */
void pg_resolver_release(struct pg_resolver *resolver, struct pg_asking *asking,
			 const struct pg_answer *answer, uint32_t age);

/* The name leads to the targets of the answer's chain, which stay askable until then at the
 * latest. */
void pg_resolver_note_targets(struct pg_resolver *resolver, const char *name,
			      const struct pg_answer *answer, uint32_t age, uint64_t latest);

/* question.c */

/* Lets go of all questions, without replies. */
void pg_questions_clear(struct pg_resolver *resolver);

/* Ends all questions to the upstream as failed. */
void pg_questions_fail(struct pg_resolver *resolver, unsigned int upstream);

void pg_questions_cancel(struct pg_resolver *resolver, const void *owner);

/*
 * The waiter, a copy of which is kept, waits for the answer. It may have it before this returns.
 * -EBUSY: too many questions or waiters; -ENOMEM; -ENOENT: there is no such upstream.
 */
int pg_question_join(struct pg_resolver *resolver, const struct pg_answer_key *key, uint64_t hash,
		     const struct pg_waiter *waiter) PG_MUST_CHECK;

/* What the upstreams call; userdata is the resolver. */
int pg_question_read(void *userdata, struct pg_query *query, const struct pg_addr *server,
		     const uint8_t *message, size_t size);
void pg_question_done(void *userdata, struct pg_query *query);

/* load.c */

/* An answer (or NULL and why there is none) for the load of the waiter. */
void pg_load_take(const struct pg_waiter *waiter, const struct pg_dns_name *name,
		  const struct pg_answer *answer, uint32_t age,
		  const struct pg_upstream_failure *failure);

/* Starts what there is room for in all loads. Returns whether there is more to do at once. */
bool pg_loads_pump(struct pg_resolver *resolver);

void pg_loads_clear(struct pg_resolver *resolver);
