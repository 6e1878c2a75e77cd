/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An Environment: a cgroup under a policy, in one of its phases. Creating follows the start order
 * of DESIGN section 6 and either succeeds whole or leaves no trace; what a SIGKILL interrupts stays
 * confined and is ended by the next start (pg_host_open).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <phasegate/abi/counter.h>
#include <phasegate/abi/header.h>

#include "dns/budget.h"
#include "dns/resolver.h"
#include "host.h"
#include "policy/policy.h"

/* How names are treated; see PG_DNS_SETTINGS_DEFAULT. */
struct pg_dns_settings {
	/* Learned addresses stay allowed for max(TTL, floor) + grace seconds: long enough for a
	 * client that keeps an answer somewhat longer than it may. */
	unsigned int floor_s, grace_s;
	/* Distinct names that may be asked under one "*." entry in a minute. */
	unsigned int wildcard_per_minute;
	/* DNS teaches no private addresses (RFC 1918, RFC 4193, RFC 6598). */
	bool forbid_private;
	enum pg_denial denial;
	/* Learned addresses at most, draining ones included. */
	unsigned int addresses_max;
};
#define PG_LEARNED_FLOOR_S     30
#define PG_LEARNED_GRACE_S     60
/* The grace is a courtesy to sloppy clients, the floor one to short TTLs: neither is a day. */
#define PG_LEARNED_SETTING_MAX 86400
#define PG_LEARNED_MAX	       1048576
#define PG_DNS_SETTINGS_DEFAULT \
	{ \
		.floor_s = PG_LEARNED_FLOOR_S, .grace_s = PG_LEARNED_GRACE_S, \
		.wildcard_per_minute = PG_BUDGET_PER_MINUTE, .addresses_max = PG_LEARNED_MAX, \
	}

struct pg_environment_options {
	/* Letters, digits, '-', '_' and '.'; NULL: "run-PID-RANDOM". */
	const char *name;
	/* An existing, empty cgroup as an absolute path below the cgroup2 mount; NULL: a new one.
	 */
	const char *cgroup;
	const struct pg_policy *policy; /* must outlive the Environment */
	enum pg_phase phase;
	/*
	 * For a policy with names: the trusted nameservers, asked from the caller's network
	 * namespace, and the Environment's own (of its resolv.conf as it is now), asked from inside
	 * of the namespace that a query comes from. The own ones are asked for names of one label,
	 * as a container network has them, and if there are no others for all; if there are no own
	 * ones, the others are asked for all. At least one list must have a server.
	 */
	const struct pg_endpoint *resolvers;
	size_t resolver_count;
	const struct pg_endpoint *own_resolvers;
	size_t own_resolver_count;
	/* A hosts(5) file, read now, whose names have these addresses; NULL: none. */
	const char *hosts;
	struct pg_dns_settings dns;
};

/*
 * -EBUSY: the cgroup has processes or cgroups below it, or an Environment is above or below it;
 * -EEXIST: the name is taken.
 */
int pg_environment_create(struct pg_host *host, const struct pg_environment_options *options,
			  struct pg_environment **ret_environment,
			  struct pg_error *err) PG_MUST_CHECK;

/*
 * Kills the tree, closes the header, detaches and removes everything. On failure what could not be
 * removed is named, stays closed, and is left to the next start; the object is gone either way.
 */
int pg_environment_destroy(struct pg_environment *environment, struct pg_error *err) PG_MUST_CHECK;

struct pg_switch {
	enum pg_phase phase;
	uint64_t generation;
	bool changed;	  /* false: the phase was in force already */
	uint64_t took_ns; /* of the one map write */
};

/*
 * Puts the phase in force: every hook run that begins after the return is judged by it. On failure
 * the old phase stays. Connections are not touched; see pg_environment_close_forbidden().
 */
int pg_environment_switch(struct pg_environment *environment, enum pg_phase phase,
			  struct pg_switch *ret_switch, struct pg_error *err) PG_MUST_CHECK;

struct pg_closing {
	size_t closed;
	unsigned int passes;
	uint64_t took_ns;
};

/*
 * The second step of a switch: destroys open connections that the phase in force does not allow.
 * Repeats until a pass finds none, and once more an RCU period later. Connections that race the
 * switch even so are destroyed by pg_host_process() when their first segment is denied.
 */
int pg_environment_close_forbidden(struct pg_environment *environment,
				   struct pg_closing *ret_closing,
				   struct pg_error *err) PG_MUST_CHECK;

struct pg_spawn {
	/*
	 * A new cgroup of this name and a random ending, which no earlier command can have
	 * prepared, below the Environment's own; it stays until destroy.
	 */
	const char *cgroup;
	char *const *argv;
	/* Set on failure: whether it was executing argv[0] that failed. */
	bool not_executable;
};

/*
 * Runs argv[0] (searched in PATH) in the Environment: its first instruction is confined. It is
 * killed if this process dies. Descriptors above 2 are closed in it. On failure to execute,
 * -ENOENT, -EACCES and the like, nothing is left running; nor on -ECANCELED, see pg_host_open().
 */
int pg_environment_spawn(struct pg_environment *environment, struct pg_spawn *spawn, pid_t *ret_pid,
			 struct pg_error *err) PG_MUST_CHECK;

/* Kills every process of the Environment and waits for their end. */
int pg_environment_kill(struct pg_environment *environment, size_t *ret_killed,
			struct pg_error *err) PG_MUST_CHECK;

int pg_environment_counters(const struct pg_environment *environment,
			    struct pg_counters *ret_counters, struct pg_error *err) PG_MUST_CHECK;

/* What the resolver in the path has done; all zero if the policy has no names. */
struct pg_resolver_stats pg_environment_dns_stats(const struct pg_environment *environment);

const char *pg_environment_name(const struct pg_environment *environment);
/* Absolute path below the cgroup2 mount. */
const char *pg_environment_cgroup(const struct pg_environment *environment);
uint64_t pg_environment_id(const struct pg_environment *environment);
enum pg_phase pg_environment_phase(const struct pg_environment *environment);
uint64_t pg_environment_generation(const struct pg_environment *environment);

/* What creating cost. */
struct pg_environment_cost {
	uint64_t compile_ns, fill_ns, names_ns, attach_ns, probe_ns;
	size_t addresses; /* elements in the kernel's tables */
};
const struct pg_environment_cost *pg_environment_cost(const struct pg_environment *environment);
