/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libphasegate: the host agent's API for C. Each call is one HTTP request over the agent's Unix
 * socket (docs/openapi.yaml); replies are handed over as the JSON text that came.
 *
 * A call returns 0 or a negative errno. On failure no ret_ parameter is touched but ret_error, and
 * that says more. Strings are UTF-8 with a NUL at the end. What is passed in stays the caller's and
 * may be freed after the call; what comes out is the caller's, to be given to phasegate_free(), or
 * phasegate_error_free() for errors.
 *
 * A client is used by one thread at a time; several clients are independent of each other. Nothing
 * is logged, and no signal, environment variable (but PHASEGATE_SOCKET) or locale matters.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define PHASEGATE_API  __attribute__((visibility("default")))
#define PHASEGATE_CALL PHASEGATE_API __attribute__((warn_unused_result))
#else
#define PHASEGATE_API
#define PHASEGATE_CALL
#endif

#define PHASEGATE_SOCKET_DEFAULT "/run/phasegate/agent.sock"

/*
 * Why a call has failed. Decide by code, never by message. Codes are those of the agent
 * (docs/openapi.yaml), or of this library:
 *
 *   agent_unreachable  -ECONNREFUSED, -ENOENT, -EACCES...: nobody answers at the socket
 *   agent_lost         -EIO: the connection ended, or took too long; the call may have had effect
 *   agent_reply        -EPROTO: the answer is none of this API
 *   bad_argument       -EINVAL: an argument is wrong, nothing was sent
 *   cancelled          -ECANCELED: a callback said so
 *   out_of_memory      -ENOMEM
 *
 * The agent's own are -EREMOTEIO.
 */
struct phasegate_error {
	int number;	     /* what the call has returned */
	unsigned int status; /* of HTTP; 0: the error is not the agent's */
	const char *code;    /* never NULL */
	const char *message; /* for people; never NULL */
	const char
		*object; /* what it is about: a JSON pointer, a name; NULL: nothing in particular */
	const char *next_step; /* what to do about it; never NULL */
	const char *json;      /* the agent's whole reply, which may say more; NULL: none */
};

/* NULL is let pass. */
PHASEGATE_API void phasegate_error_free(struct phasegate_error *error);
/* Of the texts that calls hand over; NULL is let pass. */
PHASEGATE_API void phasegate_free(char *text);

struct phasegate_client;

/*
 * socket NULL: the one of the environment variable PHASEGATE_SOCKET, or else the default. Nothing
 * is connected yet. ret_error may be NULL, here and below. -EINVAL: the path is too long; -ENOMEM.
 */
PHASEGATE_CALL int phasegate_open(const char *socket, struct phasegate_client **ret_client,
				  struct phasegate_error **ret_error);
/* NULL is let pass. */
PHASEGATE_API void phasegate_close(struct phasegate_client *client);
/* Most milliseconds of a call from now on; 0: no limit. 120,000 unless set. */
PHASEGATE_API void phasegate_set_timeout(struct phasegate_client *client, unsigned int ms);

/* One entry that is added to a phase of mode allowlist. */
struct phasegate_addition {
	const char *phase, *entry;
};

/* Policy documents, of which a later one replaces whole fields of an earlier one. */
struct phasegate_policy {
	const char *const *documents; /* JSON texts of one object each; at least one */
	size_t document_count;
	bool env_params; /* the policy's fields stand among others */
	const struct phasegate_addition *additions;
	size_t addition_count;
};

/* What the host can enforce (schema Capabilities). */
PHASEGATE_CALL int phasegate_capabilities(struct phasegate_client *client, char **ret_json,
					  struct phasegate_error **ret_error);

/* Whether the policy is valid, and what is wrong with it (schema Validation). An invalid policy is
 * no failure of the call. */
PHASEGATE_CALL int phasegate_validate(struct phasegate_client *client,
				      const struct phasegate_policy *policy, char **ret_json,
				      struct phasegate_error **ret_error);

/* What an Environment confines: exactly one of the first three. */
struct phasegate_member {
	const char *cgroup;    /* absolute path below the mount of cgroup2 */
	const char *container; /* name or id */
	uint64_t pid;	       /* 0: none */
	const char *runtime;   /* of the container; NULL: all are asked */
};

/* NULL, 0 and false are the agent's defaults, but for the first two. */
struct phasegate_create {
	const char *name;
	struct phasegate_policy policy;
	const struct phasegate_member *members; /* none: a new cgroup, cgroup_parent of the reply */
	size_t member_count;
	bool attach;
	const char *phase;	    /* "setup", "run" or "verifier" */
	const char *verifier;	    /* "host", "same" or "new" */
	const char *member_traffic; /* "allow" or "deny" */
	bool omit_denials;	    /* denials are no events */
	const char *dns;	    /* a JSON text (schema DnsSettings) */
	/* Exposures with which it is made even so (schema ExposureId). */
	const char *const *accept;
	size_t accept_count;
};

/*
 * Creates an Environment, whose phase is in force when this returns; the same call again finds it.
 * *ret_json (may be NULL): schema EnvironmentDetail. *ret_created (may be NULL): it was not there.
 */
PHASEGATE_CALL int phasegate_create(struct phasegate_client *client,
				    const struct phasegate_create *wanted, bool *ret_created,
				    char **ret_json, struct phasegate_error **ret_error);

/* {"environments": [...]}, those of the caller; root's are all. */
PHASEGATE_CALL int phasegate_list(struct phasegate_client *client, char **ret_json,
				  struct phasegate_error **ret_error);
/* Schema EnvironmentDetail. */
PHASEGATE_CALL int phasegate_show(struct phasegate_client *client, const char *name,
				  char **ret_json, struct phasegate_error **ret_error);

/* The first one of an Environment is 1. */
#define PHASEGATE_ANY_GENERATION 0

/* 0 and NULL are the agent's defaults, but for the first. */
struct phasegate_set_phase {
	const char *phase;	      /* "setup", "run" or "verifier" */
	uint64_t expected_generation; /* PHASEGATE_ANY_GENERATION: whatever is in force */
	const char *survivors;	      /* "kill", "freeze", "refuse" or "allow"; NULL: "kill" */
	uint64_t lease_seconds;	      /* 0: for good; at most 31 days */
	const char *lease_then;	      /* a phase or "deny"; NULL: setup if that is no wider */
};

/* What a switch or an update has done. */
struct phasegate_change {
	uint64_t generation;
	bool changed;	  /* false: it was in force already */
	uint64_t closed;  /* connections that were closed */
	size_t survivors; /* processes of the run that were dealt with */
};

/*
 * Puts a phase in force. Connections that it does not allow are closed before, so that their other
 * ends are told, and what is left of them after it. With expected_generation only if that is in
 * force, or else the error generation_mismatch tells which is. *ret_change and *ret_json (schema
 * PhaseChange) may be NULL.
 */
PHASEGATE_CALL int phasegate_set_phase(struct phasegate_client *client, const char *name,
				       const struct phasegate_set_phase *wanted,
				       struct phasegate_change *ret_change, char **ret_json,
				       struct phasegate_error **ret_error);
/* Another policy in the same phase. The same, with schema PolicyChange. */
PHASEGATE_CALL int phasegate_update(struct phasegate_client *client, const char *name,
				    const struct phasegate_policy *policy,
				    uint64_t expected_generation,
				    struct phasegate_change *ret_change, char **ret_json,
				    struct phasegate_error **ret_error);

/* processes: "refuse" (NULL: the same), "kill" or "release". */
PHASEGATE_CALL int phasegate_destroy(struct phasegate_client *client, const char *name,
				     const char *processes, struct phasegate_error **ret_error);

/*
 * Whether the phase (NULL: the one in force) allows a host name or address. *ret_allowed and
 * *ret_json (schema Explanation) may be NULL. *ret_allowed is false as well while everything is
 * denied after a lease.
 */
PHASEGATE_CALL int phasegate_explain(struct phasegate_client *client, const char *name,
				     const char *host, const char *phase, bool *ret_allowed,
				     char **ret_json, struct phasegate_error **ret_error);

enum phasegate_verdict {
	PHASEGATE_ENFORCED,	/* everything that was tried ended as the policy says */
	PHASEGATE_NOT_ENFORCED, /* the opposite of what the policy says has been seen */
	PHASEGATE_INCONCLUSIVE, /* anything else: nothing is proved */
};

/* NULL and 0 are the agent's defaults. */
struct phasegate_verify {
	const char *allowed;	    /* "HOST:PORT" */
	const char *blocked;	    /* "ADDRESS:PORT" */
	const char *const *without; /* vectors that are not tried, by name */
	size_t without_count;
};

/*
 * Tries from inside one allowed and one blocked destination and the ways around that need no
 * privileges; the phases that are not in force are looked up. wanted NULL: all are the defaults.
 * *ret_json (may be NULL): schema Verification.
 */
PHASEGATE_CALL int phasegate_verify(struct phasegate_client *client, const char *name,
				    const struct phasegate_verify *wanted,
				    enum phasegate_verdict *ret_verdict, char **ret_json,
				    struct phasegate_error **ret_error);

/* One event (schema Event): a JSON text of size octets without the line's end, for the time of the
 * call only. false ends phasegate_events() with -ECANCELED. */
typedef bool (*phasegate_event)(void *userdata, const char *json, size_t size);

struct phasegate_events {
	/* Of an earlier call; "now"; "oldest"; NULL: from the oldest kept, of an Environment from
	 * its creation. */
	const char *cursor;
	const char *environment; /* NULL: all */
	bool follow;		 /* waits up to 25 s if there is none yet, within the time-out */
};

/* One request; *ret_cursor, from where to go on, is a number that the next one has as text. */
PHASEGATE_CALL int phasegate_events(struct phasegate_client *client,
				    const struct phasegate_events *wanted, phasegate_event event,
				    void *userdata, uint64_t *ret_cursor,
				    struct phasegate_error **ret_error);

#ifdef __cplusplus
}
#endif
