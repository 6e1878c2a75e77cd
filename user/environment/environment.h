/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An Environment: one or more cgroups (its members) under a policy, in one of its phases. Creating
 * closes first and opens last, and either succeeds whole or leaves no trace. What a SIGKILL
 * interrupts stays confined; the next start ends it, or adopts it if it is kept (host.h).
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

/* An address that a runtime has given to a member in a network namespace of its own. */
struct pg_member_address_of {
	size_t member; /* by number */
	struct pg_addr addr;
};
/* Of one Environment: some containers are in several networks, with both families. */
#define PG_MEMBER_ADDRESSES_MAX 1024

struct pg_environment_options {
	/* Letters, digits, '-', '_' and '.'; NULL: "run-PID-RANDOM". */
	const char *name;
	/*
	 * Existing cgroups as absolute paths below the cgroup2 mount, at most PG_MEMBERS_MAX, none
	 * within another; without any, one is made. They must hold neither processes nor cgroups
	 * unless .attach is set. Then all of them are denied everything at first, and once the
	 * phase is in force the connections that it does not allow are closed.
	 */
	const char *const *members;
	size_t member_count;
	bool attach;
	/*
	 * Members may not reach each other, over loopback neither; else they are one place, and
	 * all may send to these addresses, in every phase and until the member that has it has no
	 * process any more. Whoever gives the address must be trusted: it opens what has it.
	 */
	bool apart;
	const struct pg_member_address_of *addresses;
	size_t address_count;
	/* Denials are reported to pg_host_options.denied. */
	bool report_denials;
	const struct pg_policy *policy; /* copied */
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
	/* So many of the last own ones were named by who asks for the Environment. Of the others,
	 * which a container's resolv.conf has, only addresses on the networks there are believed.
	 */
	size_t told_resolver_count;
	/* A hosts(5) file, read now, whose names have these addresses; NULL: none. */
	const char *hosts;
	struct pg_dns_settings dns;
	/*
	 * PG_EXEC_* (abi/exec.h): what is executed in a member with one of these is ended by the
	 * kernel, once pg_host_watch_exec() is in force.
	 */
	uint64_t refused_rights;
	/* For a kept Environment: who may use it, and what its owner wants to find again; NULL: "".
	 */
	uid_t owner;
	const char *note;
};

/*
 * -EBUSY: a cgroup has processes or cgroups below it (without .attach), holds the caller, or is
 * above or below one of an Environment; -EEXIST: the name is taken.
 */
int pg_environment_create(struct pg_host *host, const struct pg_environment_options *options,
			  struct pg_environment **ret_environment,
			  struct pg_error *err) PG_MUST_CHECK;

/*
 * Takes over a kept Environment as it is in the kernel: phase, generation and learned addresses
 * are those in force, and names are resolved again. -ENOENT: there is none of that name; -EBUSY:
 * it has an owner.
 */
int pg_environment_adopt(struct pg_host *host, const char *name,
			 struct pg_environment **ret_environment,
			 struct pg_error *err) PG_MUST_CHECK;

/* Frees a kept Environment's object and leaves everything in force, to be adopted. */
void pg_environment_leave(struct pg_environment *environment);

enum pg_destroy {
	PG_DESTROY_KILL, /* every process of the Environment is killed */
	/* Processes go on, confined by nothing; -EBUSY, and nothing has changed, if there is any
	 * and a cgroup is below the parent of those that are made. */
	PG_DESTROY_RELEASE,
	PG_DESTROY_IF_EMPTY, /* -EBUSY if there is any process; then nothing has changed */
};

/*
 * Closes, kills or releases, detaches and removes everything. -EAGAIN: another process makes or
 * removes an Environment, and nothing has changed (kept ones only). -EINPROGRESS: everything is
 * denied to it, but processes do not die at once; it is waited for in the background, and the host
 * tells of the end (kept ones only, with pg_host_options.ended). On failure (of another kind than
 * -EBUSY above) what could not be removed is named, and is left to the next start; the object is
 * gone either way.
 */
int pg_environment_destroy(struct pg_environment *environment, enum pg_destroy how,
			   struct pg_error *err) PG_MUST_CHECK;

/* What has become of one that is waited for, by its pg_environment_id(). -EINPROGRESS: it still is.
 * 0: nothing is left of it. */
int pg_host_ending(const struct pg_host *host, uint64_t id, struct pg_error *err) PG_MUST_CHECK;

struct pg_switch {
	enum pg_phase phase;
	uint64_t generation;
	bool changed;	  /* false: the phase was in force already */
	uint64_t took_ns; /* of the one write */
	size_t closed;	  /* connections that an update has closed before it */
};

/*
 * Puts the phase in force: every hook run that begins after the return is judged by it. On failure
 * the old phase stays. Connections are not touched; see pg_environment_close_forbidden().
 */
int pg_environment_switch(struct pg_environment *environment, enum pg_phase phase,
			  struct pg_switch *ret_switch, struct pg_error *err) PG_MUST_CHECK;

/* As pg_environment_options.refused_rights, from now on. */
int pg_environment_refuse_rights(struct pg_environment *environment, uint64_t rights,
				 struct pg_error *err) PG_MUST_CHECK;

/* Denies everything in all members until the next switch, as another generation of the phase. */
int pg_environment_deny(struct pg_environment *environment, struct pg_switch *ret_switch,
			struct pg_error *err) PG_MUST_CHECK;

/*
 * Puts another policy in force with the phase as it is, by one write. Learned addresses of names
 * that it has, too, are carried over. On failure the old policy stays and nothing else is left.
 * Connections are not touched; see pg_environment_close_forbidden(). The policy is copied.
 */
int pg_environment_update(struct pg_environment *environment, const struct pg_policy *policy,
			  struct pg_switch *ret_switch, struct pg_error *err) PG_MUST_CHECK;

/*
 * The step before a switch to the phase: destroys open connections that it would not allow, for 200
 * ms at most, so that their other ends are told while the phase in force lets that out. What it
 * misses is closed after the switch, and nobody outside is told. Returns how many it has closed.
 */
size_t pg_environment_close_ahead(const struct pg_environment *environment, enum pg_phase phase);

struct pg_closing {
	size_t closed;
	unsigned int passes;
	uint64_t took_ns;
};

/*
 * The step after a switch: destroys open connections that the phase in force does not allow.
 * Repeats until a pass finds none, and once more an RCU period later. Connections that race the
 * switch even so are destroyed by pg_host_process() when their first segment is denied.
 */
int pg_environment_close_forbidden(struct pg_environment *environment,
				   struct pg_closing *ret_closing,
				   struct pg_error *err) PG_MUST_CHECK;

/* Some of what the members had open when they were attached; the counts are whole. */
#define PG_CONNECTIONS_MAX 64

struct pg_connection {
	uint8_t protocol;		  /* IPPROTO_TCP or IPPROTO_UDP */
	struct pg_endpoint local, remote; /* IPv4-mapped addresses are IPv4 here */
	bool closed;			  /* the phase does not allow it */
};

struct pg_connections {
	size_t closed, kept;
	size_t listed;
	struct pg_connection items[PG_CONNECTIONS_MAX]; /* closed ones first */
};

/* NULL: the members were not attached, or it was another process that did it. */
const struct pg_connections *pg_environment_connections(const struct pg_environment *environment);

struct pg_spawn {
	/*
	 * A new cgroup of this name and a random ending, which no earlier command can have
	 * prepared, below the Environment's own; it stays until destroy.
	 */
	const char *cgroup;
	char *const *argv;
	/*
	 * What the child gives up before it executes argv[0]: 0, or a negative errno, with which
	 * nothing is executed. NULL: nothing.
	 */
	int (*confine)(const void *userdata);
	const void *userdata;
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

/* A child that looks from inside. */
struct pg_inside {
	pid_t pid;
	char cgroup[64]; /* of its own, below the first member's */
};

/*
 * Starts a child of this process in a new cgroup below the first member's, which enters the network
 * namespace of a process that is there, if there is any, runs function and exits with its result.
 * It has this process's privileges and descriptors: function gives them up first. It is ended by
 * pg_environment_leave_inside(), whether it still runs or not.
 */
int pg_environment_enter(struct pg_environment *environment, int (*function)(void *userdata),
			 void *userdata, struct pg_inside *ret_inside,
			 struct pg_error *err) PG_MUST_CHECK;
/* environment NULL: it has been destroyed meanwhile. */
void pg_environment_leave_inside(struct pg_environment *environment, struct pg_inside *inside);
/* Removes what children of an owner that was killed have left, unless they are still about to end.
 */
void pg_environment_tidy_inside(struct pg_environment *environment);

/*
 * Whether the phase, in force or not, allows new connections to the endpoint: by the headers of all
 * members and the tables that they name, as the kernel has them now. -EPROTO: they are not as they
 * should be; -ENOENT: a table, or every member, is missing. May wait some RCU periods.
 */
int pg_environment_judge(const struct pg_environment *environment, enum pg_phase phase,
			 const struct pg_endpoint *remote, bool *ret_allowed,
			 struct pg_error *err) PG_MUST_CHECK;
/* An address that the phase allows because a name of its list has it. */
bool pg_environment_learned_address(const struct pg_environment *environment, enum pg_phase phase,
				    struct pg_addr *ret_addr);

/* Kills every process of the Environment and waits for their end. */
int pg_environment_kill(struct pg_environment *environment, size_t *ret_killed,
			struct pg_error *err) PG_MUST_CHECK;

/* A process of the Environment. */
struct pg_survivor {
	pid_t pid;
	char command[16]; /* as in /proc/PID/comm */
	char *cgroup;	  /* absolute path below the cgroup2 mount */
};
struct pg_survivors {
	struct pg_survivor *items;
	size_t count;
};
void pg_survivors_clear(struct pg_survivors *survivors);

/*
 * Processes that were started at the time (CLOCK_BOOTTIME ns) or later: with the resolution of the
 * kernel's process times, 10 ms, in doubt later. The caller clears *ret_survivors.
 */
int pg_environment_survivors(const struct pg_environment *environment, uint64_t since_ns,
			     struct pg_survivors *ret_survivors,
			     struct pg_error *err) PG_MUST_CHECK;

enum pg_survivor_end {
	PG_SURVIVORS_KILL,
	/* In cgroups that are made for it, below those that they are in, so that no signal of
	 * another process of the Environment lets them run again. Who cannot be moved there is
	 * killed, with the warning "survivors_killed". */
	PG_SURVIVORS_FREEZE,
};

/* Ends them, those that they start meanwhile too, and returns when none runs any more.
 * *ret_survivors: all that were. */
int pg_environment_end_survivors(struct pg_environment *environment, uint64_t since_ns,
				 enum pg_survivor_end how, struct pg_survivors *ret_survivors,
				 struct pg_error *err) PG_MUST_CHECK;

/* Lets what was frozen run again. */
int pg_environment_thaw(struct pg_environment *environment, struct pg_error *err) PG_MUST_CHECK;

/* Whether any process is in a member or below it. */
int pg_environment_populated(const struct pg_environment *environment, bool *ret_populated,
			     struct pg_error *err) PG_MUST_CHECK;

/* Sums over the members. */
int pg_environment_counters(const struct pg_environment *environment,
			    struct pg_counters *ret_counters, struct pg_error *err) PG_MUST_CHECK;

/* What the resolver in the path has done; all zero if the policy has no names. */
struct pg_resolver_stats pg_environment_dns_stats(const struct pg_environment *environment);
/* Refused queries that were too many to be reported. */
uint64_t pg_environment_refusals_unreported(const struct pg_environment *environment);

const char *pg_environment_name(const struct pg_environment *environment);
size_t pg_environment_member_count(const struct pg_environment *environment);
/* What has become of a member's cgroup. */
enum pg_member_state {
	PG_MEMBER_CONFINED,
	PG_MEMBER_GONE,
	PG_MEMBER_UNCONFINED, /* gone, but another has been made at its path */
};
enum pg_member_state pg_environment_member_state(const struct pg_environment *environment,
						 size_t index);
/* Confines what has been made at the path of a member that is gone: first all is denied to it, then
 * the phase is in force; what it had open is left to pg_environment_close_forbidden(). */
int pg_environment_reconfine(struct pg_environment *environment, size_t index,
			     struct pg_error *err) PG_MUST_CHECK;
/* Members that have been confined again get the addresses back that they had and have, for the
 * other members: to be called now and then, since their runtime may still be at work. */
void pg_environment_find_addresses(struct pg_environment *environment);
/* Absolute path of a member below the cgroup2 mount, and its cgroup id. */
const char *pg_environment_member(const struct pg_environment *environment, size_t index);
uint64_t pg_environment_member_id(const struct pg_environment *environment, size_t index);
/* It was removed: whatever has its path now is not confined by the Environment. */
bool pg_environment_member_gone(const struct pg_environment *environment, size_t index);
/* Whether there is anybody to ask, should its policy have names. */
bool pg_environment_has_resolvers(const struct pg_environment *environment);
/* The cgroup was made with the Environment, and ends with it. */
bool pg_environment_made(const struct pg_environment *environment);
/*
 * The ways out of the members' network namespaces. A veth has the veth guard on its host end, the
 * one in the namespace of this process; other ways can have none.
 */
/* X(symbol, name) */
#define PG_LINK_GUARDS(X) \
	X(ON, "on") \
	X(SHARED, "shared") /* others live in the namespace; their sockets are not judged */ \
	X(NONE, "none")
/* X(symbol, name, text): why there is none. */
#define PG_UNGUARDEDS(X) \
	X(HOST_NETWORK, "host-network", "the namespace is that of the host") \
	X(NO_VETH, "no-veth", "the interface leads out of the namespace and is no veth") \
	X(PEER_ELSEWHERE, "peer-elsewhere", \
	  "the other end of the veth is in a namespace of somebody else's") \
	X(ANOTHERS, "anothers", "the veth has the guard of another Environment") \
	X(PASSABLE, "passable", \
	  "before Linux 6.6 who has CAP_NET_ADMIN in the namespace can have the kernel pass over" \
	  " the guard")
enum pg_link_guard {
#define PG_X(symbol, name) PG_LINK_GUARD_##symbol,
	PG_LINK_GUARDS(PG_X)
#undef PG_X
};
enum pg_unguarded {
#define PG_X(symbol, name, text) PG_UNGUARDED_##symbol,
	PG_UNGUARDEDS(PG_X)
#undef PG_X
};
const char *pg_link_guard_name(enum pg_link_guard guard);
const char *pg_unguarded_name(enum pg_unguarded reason);
const char *pg_unguarded_text(enum pg_unguarded reason);
struct pg_link_view {
	uint64_t network_namespace; /* its inode; 0: not known */
	const char *interface;	    /* the host end; NULL: none */
	const char *device;	    /* the interface inside; NULL: none, or not known */
	enum pg_link_guard guard;
	enum pg_unguarded reason; /* where there is none */
};
typedef void (*pg_link_visit)(void *userdata, const struct pg_link_view *link);
void pg_environment_visit_links(const struct pg_environment *environment, pg_link_visit visit,
				void *userdata);
struct pg_links_summary {
	size_t on, shared, none;
	bool host_network; /* one of .none */
};
struct pg_links_summary pg_links_summary(const struct pg_environment *environment);

/* The first member's cgroup id. */
uint64_t pg_environment_id(const struct pg_environment *environment);
const struct pg_policy *pg_environment_policy(const struct pg_environment *environment);
enum pg_phase pg_environment_phase(const struct pg_environment *environment);
/* Everything is denied, see pg_environment_deny(). */
bool pg_environment_denied(const struct pg_environment *environment);
uint64_t pg_environment_generation(const struct pg_environment *environment);

/* Of a kept Environment: kept with it. On failure the old note stays. */
uid_t pg_environment_owner(const struct pg_environment *environment);
const char *pg_environment_note(const struct pg_environment *environment);
int pg_environment_set_note(struct pg_environment *environment, const char *note,
			    struct pg_error *err) PG_MUST_CHECK;

/* What creating cost. */
struct pg_environment_cost {
	uint64_t compile_ns, fill_ns, names_ns, attach_ns, probe_ns;
	size_t addresses; /* elements in the kernel's tables */
};
const struct pg_environment_cost *pg_environment_cost(const struct pg_environment *environment);
