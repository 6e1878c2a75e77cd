/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tries from inside of an Environment: a child connects to a destination that the phase allows and
 * to one that it denies. What it says is believed only together with what the kernel reports of
 * the Environment: the second is blocked if its denial was reported and counted.
 *
 *   verify.c        the child's start and end, and what is concluded
 *   verify_probe.c  what the child does
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

struct pg_verification {
	LIST_ENTRY(pg_verification) link;
	struct pg_agent *agent;
	uint64_t number;
	uint64_t environment_id, generation, denied_before;
	struct pg_inside inside;
	sd_event_source *source;
	int read_fd;
	uint64_t since; /* CLOCK_MONOTONIC ns */
	bool done;
	struct pg_verify_target targets[PG_VERIFY_COUNT];
	struct pg_verify_outcome outcomes[PG_VERIFY_COUNT];
	uint64_t denials[PG_VERIFY_COUNT]; /* reported ones, for the endpoint */
};

/* Each is a process. */
#define PG_VERIFICATIONS_MAX   16
/* Of each connect(). */
#define PG_VERIFY_CONNECT_MS   3000
/* Of each question for a name. */
#define PG_VERIFY_NAME_MS      2000
/* Of all that a child does. */
#define PG_VERIFY_CHILD_S      10
/* A finished one that nobody has asked for goes. */
#define PG_VERIFY_KEPT_SECONDS 60

/* -EBUSY: there are too many; else err says why. */
int pg_verification_start(struct pg_agent *agent, struct pg_managed *managed,
			  const struct pg_verify_target targets[PG_VERIFY_COUNT],
			  uint64_t *ret_number, struct pg_error *err) PG_MUST_CHECK;
struct pg_verification *pg_verification_find(struct pg_agent *agent, uint64_t number);
void pg_verification_end(struct pg_verification *verification);
void pg_verifications_clear(struct pg_agent *agent);
/* Nothing more is tried in the Environment: it is about to be destroyed. */
void pg_verifications_stop(struct pg_agent *agent, const struct pg_environment *environment);
/* A denial was reported. */
void pg_verifications_denied(struct pg_agent *agent, const struct pg_event *event);

/* The result as members of an object. */
void pg_verification_describe(const struct pg_verification *verification,
			      const struct pg_managed *managed, struct pg_json_writer *json);

/* In the child, userdata: writes the outcomes to the descriptor. */
struct pg_verify_probe {
	const struct pg_verify_target *targets;
	int write_fd;
};
int pg_verify_probe(void *userdata);
