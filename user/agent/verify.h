/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tries from inside of an Environment. A child connects to a destination that the phase in force
 * allows and to one that it denies, and then goes the ways to the outside that need no privilege.
 * What it says is believed only together with what the kernel reports of the Environment: a way is
 * blocked if its denial was reported. The phases that are not in force are looked up in the
 * kernel's tables, and not switched to: that would open, if only for a moment, what is closed.
 *
 *   verify.c          the child's start and end, and what the kernel reports meanwhile
 *   verify_plan.c     what is tried, and how its denial would be reported
 *   verify_probe.c    what the child does: the two connections
 *   verify_vectors.c  the same: the ways to the outside
 *   verify_groups.c   the same: multicast groups
 *   verify_judge.c    what is concluded
 *   verify_phases.c   the phases that are not in force
 *   verify_describe.c the reply
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "agent.h"

/* Where to connect to. */
struct pg_verify_target {
	bool given;
	char text[320]; /* HOST:PORT, for people */
	char name[256]; /* "": the endpoint is known */
	struct pg_endpoint endpoint;
};

/* What has come of it, as the child says. */
struct pg_verify_outcome {
	bool tried;
	bool unresolved; /* the name has no address */
	int number;	 /* errno of connect(); 0: it is connected */
	struct pg_endpoint endpoint;
};

enum pg_verify_which {
	PG_VERIFY_ALLOWED,
	PG_VERIFY_BLOCKED,
	PG_VERIFY_COUNT,
};

/* X(symbol, name, what is tried) */
#define PG_VERIFY_VECTORS(X) \
	X(LOOPBACK_TCP, "loopback-tcp", "TCP to itself on loopback") \
	X(LOOPBACK_UDP, "loopback-udp", "UDP to itself on loopback") \
	X(TCP_FAST_OPEN, "tcp-fast-open", "data in the first TCP segment") \
	X(MPTCP, "mptcp", "Multipath TCP") \
	X(TCP_MAPPED, "tcp-mapped", "TCP to the IPv4-mapped address") \
	X(UDP_CONNECTED, "udp-connected", "connected UDP") \
	X(UDP_SENDTO, "udp-sendto", "unconnected UDP") \
	X(UDP_RECONNECTED, "udp-reconnected", "UDP, connected to itself before") \
	X(UDP_MAPPED, "udp-mapped", "UDP to the IPv4-mapped address") \
	X(UDP_LITE, "udp-lite", "UDP-Lite") \
	X(PING, "ping", "ICMP echo of a ping socket") \
	X(MULTICAST, "multicast", "UDP to a multicast address") \
	X(BROADCAST, "broadcast", "UDP to the broadcast address") \
	X(BOUND_LOOPBACK, "bound-loopback", "127.0.0.1 by another device than lo") \
	X(FORGED_SOURCE, "forged-source", "a forged IPv6 source that the kernel would answer to") \
	X(ROUTING_HEADER, "routing-header", "an IPv6 segment routing header") \
	X(DNS, "dns", "DNS past the resolver") \
	X(MLD, "mld", "joining an IPv6 multicast group") \
	X(IGMP, "igmp", "joining an IPv4 multicast group") \
	X(VSOCK, "vsock", "AF_VSOCK to the hypervisor")

enum pg_verify_vector {
#define PG_X(symbol, name, text) PG_VERIFY_##symbol,
	PG_VERIFY_VECTORS(PG_X)
#undef PG_X
	PG_VERIFY_VECTOR_COUNT
};

/* What is to be tried. */
struct pg_verify_plan {
	const char *left_out; /* why it is not; NULL: it is */
	struct pg_endpoint to;
	/* How the kernel would report its denial; port and protocol 0: any. */
	struct pg_endpoint denied;
	uint8_t protocol;
	bool passes; /* it has to */
};

/* What has come of it, as the child says. */
struct pg_verify_try {
	bool tried;
	bool impossible; /* here: .number says why */
	bool seen;	 /* an answer, or the kernel's own count, shows that it went out */
	int number;	 /* errno of the last step; 0: none */
};

/* What the child writes, at once. */
struct pg_verify_report {
	struct pg_verify_outcome outcomes[PG_VERIFY_COUNT];
	struct pg_verify_try tries[PG_VERIFY_VECTOR_COUNT];
};

/* Denials of one thing that the kernel has reported. */
struct pg_verify_denials {
	uint64_t count;
	uint8_t reason, what; /* of the last one */
};

struct pg_verification {
	LIST_ENTRY(pg_verification) link;
	struct pg_agent *agent;
	uint64_t number;
	uint64_t environment_id, generation, denied_before, asked_before;
	struct pg_inside inside;
	sd_event_source *source;
	int read_fd;
	uint64_t since; /* CLOCK_MONOTONIC ns */
	bool done;
	struct pg_verify_target targets[PG_VERIFY_COUNT];
	struct pg_verify_plan plans[PG_VERIFY_VECTOR_COUNT];
	struct pg_verify_report report;
	struct pg_verify_denials denials[PG_VERIFY_COUNT], vector_denials[PG_VERIFY_VECTOR_COUNT];
};

/* Each is a process. */
#define PG_VERIFICATIONS_MAX	  16
/* With those that are finished and that nobody has asked for yet, or any more. */
#define PG_VERIFICATIONS_KEPT_MAX 1024
/* Of each connect(). */
#define PG_VERIFY_CONNECT_MS	  3000
/* Of each question for a name. */
#define PG_VERIFY_NAME_MS	  2000
/* The kernel sends the report of a group that was joined within some 20 ms. */
#define PG_VERIFY_GROUP_MS	  300
/* Of all that a child does. */
#define PG_VERIFY_CHILD_S	  12
/* A finished one that nobody has asked for goes. */
#define PG_VERIFY_KEPT_SECONDS	  60
/* Of a destination that the agent chooses. */
#define PG_PORT_HTTPS		  443
/* The destination ports of vectors, so that reports can be told apart: those of traceroute. */
#define PG_VERIFY_PORT_FIRST	  33434

/* A set of vectors: a bit each. */
#define PG_VERIFY_BIT(vector) (1U << (vector))

/* -EBUSY: there are too many; else err says why. */
int pg_verification_start(struct pg_agent *agent, struct pg_managed *managed,
			  const struct pg_verify_target targets[PG_VERIFY_COUNT],
			  unsigned int without, uint64_t *ret_number,
			  struct pg_error *err) PG_MUST_CHECK;
struct pg_verification *pg_verification_find(struct pg_agent *agent, uint64_t number);
void pg_verification_end(struct pg_verification *verification);
void pg_verifications_clear(struct pg_agent *agent);
/* Nothing more is tried in the Environment: it is about to be destroyed. */
void pg_verifications_stop(struct pg_agent *agent, const struct pg_environment *environment);
/* A denial was reported. */
void pg_verifications_denied(struct pg_agent *agent, const struct pg_event *event);

/* verify_plan.c; without: PG_VERIFY_BIT() of those that are left out. */
void pg_verify_make_plans(const struct pg_config *config, const struct pg_environment *environment,
			  const struct pg_verify_target *blocked, unsigned int without,
			  struct pg_verify_plan plans[PG_VERIFY_VECTOR_COUNT]);
/* The destinations that a phase lists, and those that it does not. */
bool pg_verify_allows(const struct pg_phase_policy *phase, const struct pg_addr *addr);
bool pg_verify_is_forbidden(const struct pg_config *config, const struct pg_addr *addr);
/* An address for documentation (RFC 5737, RFC 3849) that no entry has: nobody is there. v4, v6: of
 * which families. false: every one is allowed. */
bool pg_verify_find_blocked(const struct pg_phase_policy *phase, bool v4, bool v6,
			    struct pg_addr *ret_addr);
const char *pg_verify_vector_name(enum pg_verify_vector vector);
const char *pg_verify_vector_text(enum pg_verify_vector vector);
/* -EINVAL */
int pg_verify_vector_parse(const char *name, enum pg_verify_vector *ret_vector) PG_MUST_CHECK;

/* verify_judge.c: one row of the table */

/* X(symbol, name): reached and blocked of targets, passed and blocked of vectors, allowed and
 * denied of what is looked up. */
#define PG_VERIFY_RESULTS(X) \
	X(REACHED, "reached") \
	X(PASSED, "passed") \
	X(BLOCKED, "blocked") \
	X(ALLOWED, "allowed") \
	X(DENIED, "denied") \
	X(INCONCLUSIVE, "inconclusive") \
	X(NOT_POSSIBLE, "not_possible")

enum pg_verify_result {
#define PG_X(symbol, name) PG_VERIFY_RESULT_##symbol,
	PG_VERIFY_RESULTS(PG_X)
#undef PG_X
};
const char *pg_verify_result_name(enum pg_verify_result result);

struct pg_verify_judgement {
	enum pg_verify_result result;
	bool wrong; /* the opposite of what the policy says */
	char reason[160];
};

/* What is known besides when a verification is judged. */
struct pg_verify_situation {
	bool same_generation; /* as when it began */
	bool denied_more;     /* connections, by the counters */
	bool asked_more;      /* the resolver in the path, by the counters */
	bool filtered;	      /* the workload is under a seccomp filter */
};

struct pg_verify_judgement pg_verify_judge_target(const struct pg_verification *verification,
						  enum pg_verify_which which,
						  const struct pg_verify_situation *situation);
struct pg_verify_judgement pg_verify_judge_vector(const struct pg_verification *verification,
						  enum pg_verify_vector vector,
						  const struct pg_verify_situation *situation);

/* verify_phases.c */
struct pg_verify_phase {
	struct {
		bool given; /* else there is nothing to look up */
		struct pg_addr addr;
		struct pg_verify_judgement judgement;
	} rows[PG_VERIFY_COUNT];
};
void pg_verify_look_up_phase(const struct pg_config *config,
			     const struct pg_environment *environment, enum pg_phase phase,
			     struct pg_verify_phase *ret_phase);

/* verify_describe.c: the result as members of an object. */
void pg_verification_describe(const struct pg_verification *verification,
			      const struct pg_managed *managed, struct pg_json_writer *json);

/* In the child, userdata: writes the report to the descriptor. Nothing here or below allocates
 * memory (work.h). */
struct pg_verify_probe {
	const struct pg_verify_target *targets;
	const struct pg_verify_plan *plans;
	int write_fd;
};
int pg_verify_probe(void *userdata);
/* A query of the name for records of the type; returns its size, or -EINVAL. */
int pg_verify_make_query(const char *name, int type, uint16_t id, unsigned char *query,
			 size_t room) PG_MUST_CHECK;

/* verify_vectors.c: tries them all. */
void pg_verify_try_all(const struct pg_verify_plan plans[PG_VERIFY_VECTOR_COUNT],
		       struct pg_verify_try tries[PG_VERIFY_VECTOR_COUNT]);
void pg_verify_set(struct pg_verify_try *try, int number);
/* What is not there cannot be gone. */
void pg_verify_set_impossible(struct pg_verify_try *try, int number);
/* -1, and it is impossible: there are no such sockets. */
int pg_verify_socket(int family, int type, int protocol, struct pg_verify_try *try);

/* verify_groups.c */
void pg_verify_try_groups(struct pg_verify_try *mld, struct pg_verify_try *igmp);
/* The first device that is up, other than lo, into name (IFNAMSIZ octets). */
bool pg_verify_find_device(char *name);
