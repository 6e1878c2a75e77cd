/* SPDX-License-Identifier: Apache-2.0 */
/* Private to user/environment/. */
#pragma once

#include <sys/queue.h>

#include "cgroup.h"
#include "compile/address_set.h"
#include "environment.h"
#include "homes.h"
#include "kernel/attach.h"
#include "kernel/set.h"
#include "members.h"
#include "record.h"
#include "state.h"

/* Something that the host's descriptor waits for. */
struct pg_source {
	int (*process)(void *userdata, struct pg_error *err);
	void *userdata;
};

struct pg_addresses; /* addresses.c */
struct pg_homes;     /* homes.c */
struct pg_member_addresses;

/* older_sockets.c: once the member's hooks are in force */
int pg_older_sockets_mark(struct pg_environment *environment, size_t index,
			  struct pg_error *err) PG_MUST_CHECK;

/* What may have been sent before a member was confined, so that what comes in may be the answer. */
struct pg_before {
	bool lived; /* it had processes: segments and frames */
	bool sent;  /* datagrams, too */
};

/* older_datagrams.c: adds what is known of the member. */
int pg_before_find(const struct pg_environment *environment, size_t index, struct pg_before *before,
		   struct pg_error *err) PG_MUST_CHECK;
/* Texts of /proc/net/snmp and snmp6. Pure function. */
bool pg_counts_have_sent(const char *v4, const char *v6);

LIST_HEAD(pg_environment_list, pg_environment);

/* A kept Environment that nobody has adopted yet. */
struct pg_kept {
	LIST_ENTRY(pg_kept) link;
	char name[PG_NAME_MAX + 1];
	/* In use as its header says; of an earlier owner. */
	struct pg_kernel_set ceiling;
	struct pg_saved saved;
	bool stale;	/* the state file names a bank that is not there any more */
	bool unwritten; /* somebody has removed what says which cgroups it has */
	/* Of each bank that is there, by phase; fd -1 where there is none. */
	struct pg_kernel_learned learned[PG_BANK_COUNT][PG_PHASE_COUNT];
};
LIST_HEAD(pg_kept_list, pg_kept);

/* place_watch.c: what the host's inotify watches, sorted by number. */
struct pg_place_watch {
	int number;
	struct pg_place *place;
};
struct pg_place_watches {
	struct pg_place_watch *items;
	size_t count, room;
};

struct pg_host {
	struct pg_kernel *kernel;
	struct pg_exec_watch *exec_watch; /* NULL: none */
	char *cgroup_mount;
	int cgroup_mount_fd;
	int epoll_fd;
	int names_wait_ms; /* for the names of a policy, at most */
	/* As long as names were late not long ago, waits are shorter (dns.c). */
	int names_patience_ms;
	uint64_t names_late_at; /* CLOCK_MONOTONIC ns; 0: never */
	int interrupt_fd;	/* readable: give up what takes long; -1: none; not owned */
	int aging_fd, closing_fd, tidying_fd; /* timers */
	int inotify_fd;			      /* place_watch.c; -1: none */
	struct pg_place_watches watches;
	struct pg_source events, aging, closing, tidying, inotify;
	bool tidying_set;
	uint64_t closing_next; /* not before then are stranded connections closed again */
	/* The sources whose turn it is in pg_host_process(); one that is removed meanwhile is
	 * NULL. */
	struct pg_source **turn;
	size_t turn_count;
	struct pg_environment_list environments;
	uint64_t environment_count; /* so far */
	/* homes_begun.c: how many programs could not be seen to begin, and the number of the last
	 * Environment that one of them may be of; 0: all of these have ended. */
	uint32_t begun_missed;
	uint64_t begun_missed_of;
	/* ending.c: those whose end has failed */
	struct pg_environment_list ending;
	int ending_fd; /* a timer; -1: none is tried again */
	struct pg_source ending_source;
	uint64_t ending_next; /* not before then is one tried again */
	pg_warning warning;
	pg_denied denied;
	pg_refused refused;
	pg_unguarded_link unguarded;
	pg_address_refused address_refused;
	pg_crowded crowded;
	pg_executed executed;
	pg_ended ended;
	const struct pg_socket_store *store; /* NULL: none */
	void *userdata;
	char *parent; /* of the cgroups that are made, below the cgroup2 mount */
	/* Of hosts that keep Environments. */
	char *pins;  /* NULL: not one */
	int pins_fd; /* holds the lock */
	struct pg_kept_list kept;
	bool in_use;	      /* something in the kernel stays with what is pinned */
	bool failed_adoption; /* of one that stays as it is */
	bool strays;	      /* somebody is in the kernel's tables whom nobody has adopted */
	/* The operator's ceiling. */
	struct pg_address_set never_allowed;
	struct pg_kernel_set ceiling;
	struct pg_addresses *addresses; /* of this host */
	struct pg_homes *homes;		/* what is heard of other namespaces */
	struct pg_link_watch *links;	/* links.h */
	bool limit_ports;		/* that entries open on them, to these (network order) */
	__be16 *ports;
	size_t port_count;
};

/* A line for each cgroup hierarchy, each with a path. */
#define PG_PROC_FILE_MAX (64UL * 1024)

void pg_host_warn(const struct pg_host *host, const char *code, const char *message);

/* exec.c */
void pg_host_executed(struct pg_environment *environment, const struct pg_event_exec *executed);

/* own.c: -EBUSY if this process is in an Environment; no record is its own yet. */
int pg_records_refuse_here(int records_fd, struct pg_error *err) PG_MUST_CHECK;
/* own.c: adds those of its Environments. */
void pg_host_own_records(const struct pg_host *host, struct pg_own_records *own);

/* The operator never allows it, in no mode. */
bool pg_host_forbids(const struct pg_host *host, const struct pg_addr *addr);
/* An entry that has the address opens the port, too. */
bool pg_host_opens(const struct pg_host *host, const struct pg_endpoint *remote);

#define PG_CGROUP_PARENT "phasegate"
/* Where the parent's guard is pinned: one parent, one guard, whoever the process is. */
const char *pg_host_guard_pins(const struct pg_host *host);
bool pg_host_is_below_parent(const struct pg_host *host, const char *path);

/* Closes what the phase in force forbids, in pg_host_process(). */
int pg_host_close_soon(struct pg_environment *environment, struct pg_error *err) PG_MUST_CHECK;

/* tidying.c: lets go of sets that are not in use any more, in pg_host_process(); many at once. */
void pg_host_tidy_soon(struct pg_host *host);
int pg_tidying_start(struct pg_host *host, struct pg_error *err) PG_MUST_CHECK;

/* host_loop.c. events: of epoll_ctl(2), EPOLLIN as a rule. */
int pg_host_add_source(struct pg_host *host, int fd, uint32_t events, struct pg_source *source,
		       struct pg_error *err) PG_MUST_CHECK;
/* The source is not called any more, not even for what has happened already. */
void pg_host_remove_source(struct pg_host *host, int fd, const struct pg_source *source);
/* A timer (CLOCK_BOOTTIME) that is not set yet. */
int pg_host_add_timer(struct pg_host *host, struct pg_source *source, int *ret_fd,
		      struct pg_error *err) PG_MUST_CHECK;
/* The source of a timer calls this first. */
void pg_timer_acknowledge(int fd);
int pg_timer_set(int fd, uint64_t after_ns, uint64_t period_ns, struct pg_error *err) PG_MUST_CHECK;

/* What one distinct list of entries became; phases that inherit share it. */
struct pg_compiled {
	const struct pg_entries *entries;
	struct pg_address_set addresses;
	struct pg_kernel_set set;
	struct pg_kernel_learned learned;
	bool has_names;
};

/* A policy, and what it became: what one bank of the headers says. */
struct pg_content {
	struct pg_policy *policy;
	struct pg_compiled compiled[PG_PHASE_COUNT];
	size_t compiled_count;
	unsigned int phase_compiled[PG_PHASE_COUNT]; /* index + 1; 0: no entries */
	struct pg_phase_slot slots[PG_PHASE_COUNT];
	struct pg_names *names; /* NULL: the policy has none */
};

/* A member: one of the cgroups of the Environment. */
struct pg_place {
	struct pg_environment *environment;
	uint64_t id;
	int fd;		   /* -1: not open, or its cgroup is gone */
	bool in_kernel;	   /* it has a header, which may be written */
	pg_hook_set hooks; /* that have a program at it */
	/* place_watch.c: of its cgroup.events, of new cgroups in it (-1: none), and the file where
	 * there is no watch for it. */
	int events_watch, cgroups_watch, events_fd;
	struct pg_source events;
};

struct pg_environment {
	LIST_ENTRY(pg_environment) link;
	struct pg_host *host;
	uint64_t number;	 /* of those that the host has made or adopted */
	struct pg_record record; /* .cgroups are the places' paths */
	int record_fd;
	enum pg_intent intent;
	struct pg_settings settings;
	struct pg_place *places;		      /* as many as cgroups in the record */
	struct pg_member_addresses *member_addresses; /* NULL: none */
	struct pg_home_list homes;
	struct pg_homes_state homes_state;
	/* As in the kernel. */
	uint32_t state_index; /* 0: none yet */
	struct pg_state_value state;
	struct pg_header header; /* but for what differs by member */
	enum pg_phase phase;	 /* the last one in force; state.phase may be none */
	struct pg_content *content;
	struct pg_dns *dns;	 /* NULL: the policy has had no names so far */
	struct pg_content *next; /* on its way to be put in force */
	bool stranded;		 /* a closing pass is due */
	uint64_t held;		 /* places that are frozen for a moment, a bit each */
	struct pg_before before; /* it was made */
	/* ending.c: its end has failed, and is tried again, without waiting for long */
	bool ending;
	uint64_t ending_at, ending_pause;
	uint64_t ending_until;	       /* so long it is waited for; 0: it is not */
	struct pg_error *ending_fault; /* what there was then; NULL: nothing, or no memory */
	struct pg_environment_cost cost;
	uint64_t flows_refused;		    /* of these the host was told */
	struct pg_connections *connections; /* NULL: none were looked for */
};

static inline size_t pg_place_count(const struct pg_environment *environment)
{
	return environment->places ? environment->record.cgroup_count : 0;
}

static inline const char *pg_place_path(const struct pg_environment *environment, size_t index)
{
	return environment->record.cgroups[index].path;
}

/* A new object with nothing in it; freed by pg_environment_free(). */
struct pg_environment *pg_environment_new(struct pg_host *host);
void pg_environment_free(struct pg_environment *environment);

/* crowding.c: how often flows are aged; and, as often, whether some found no room since. */
uint64_t pg_flows_period_ns(void);
void pg_flows_look(struct pg_host *host);
/* What was refused before is no news. */
void pg_flows_begin(struct pg_environment *environment);

/* closing.c: closes what the Environment forbids as it is going to be, for as long as something
 * that is waited for may take; returns how many. */
size_t pg_closing_ahead(const struct pg_environment *then);
/* pg_environment_close_forbidden() for members that had connections before; keeps which
 * were closed, and which stay, in .connections. */
int pg_connections_settle(struct pg_environment *environment, struct pg_error *err) PG_MUST_CHECK;

/* connections.c: what a pass has found; a kept one of an earlier pass is forgotten. */
void pg_connections_begin(struct pg_connections *connections);
void pg_connections_note(struct pg_connections *connections, const struct pg_socket *socket,
			 bool closed);

/* content.c: policy -> sets in the kernel */
int pg_content_create(struct pg_environment *environment, const struct pg_policy *policy,
		      struct pg_content **ret_content, struct pg_error *err) PG_MUST_CHECK;
/* What a bank of a kept Environment says; takes over the learned tables. */
int pg_content_adopt(struct pg_environment *environment, const struct pg_policy *policy,
		     const struct pg_saved_bank *bank, struct pg_kernel_learned *learned,
		     struct pg_content **ret_content, struct pg_error *err) PG_MUST_CHECK;
/* keep: leaves what it is in the kernel. */
void pg_content_free(struct pg_environment *environment, struct pg_content *content, bool keep);
void pg_content_save(const struct pg_content *content, struct pg_saved_bank *bank);
/* The slot of the phase in force; one that allows nothing while everything is denied. */
const struct pg_phase_slot *pg_content_slot(const struct pg_environment *environment);
/* What the phase in force lists; NULL: nothing. */
const struct pg_compiled *pg_content_list(const struct pg_environment *environment);
/* Whether the phase in force allows a new (or, if draining, an open) connection to the endpoint. */
bool pg_content_allows(const struct pg_environment *environment, const struct pg_endpoint *remote);

/* Whether a phase's list has the address now: static, or learned and not expired. */
bool pg_content_has_address(const struct pg_environment *environment, const struct pg_addr *addr);

/* place.c: the member cgroups */
int pg_places_choose(struct pg_environment *environment,
		     const struct pg_environment_options *options,
		     struct pg_error *err) PG_MUST_CHECK;
/* Opens given ones, and refuses those that cannot be confined. */
int pg_places_open(struct pg_environment *environment, bool attach,
		   struct pg_error *err) PG_MUST_CHECK;
/* Makes and opens one. */
int pg_places_make(struct pg_environment *environment, struct pg_error *err) PG_MUST_CHECK;
/* Opens those of a kept Environment that are still there, with their links. -ENOENT: none is. */
int pg_places_adopt(struct pg_environment *environment, const struct pg_saved *saved,
		    struct pg_error *err) PG_MUST_CHECK;
/* Attaches and pins what is missing. New ones are closed with their first link. */
int pg_places_attach(struct pg_environment *environment, bool for_dns,
		     struct pg_error *err) PG_MUST_CHECK;
/* Makes the members known to each other and to the guard. */
int pg_places_admit(struct pg_environment *environment, struct pg_error *err) PG_MUST_CHECK;
/* Writes environment->header for each, and reads it back. */
int pg_places_write(struct pg_environment *environment, struct pg_error *err) PG_MUST_CHECK;
/* That of one of them. */
void pg_place_header(const struct pg_environment *environment, size_t index,
		     struct pg_header *ret_header);
/* Closes descriptors; what is pinned stays. */
void pg_places_close(struct pg_environment *environment);
bool pg_place_is_gone(const struct pg_place *place);
/* Attaches to the cgroup that is at the path now; everything is denied to it. */
int pg_place_reopen(struct pg_environment *environment, size_t index,
		    struct pg_error *err) PG_MUST_CHECK;
/* All members' processes and namespaces; one that is gone has none. until: see struct pg_members.
 */
int pg_places_collect(const struct pg_environment *environment, uint64_t until,
		      struct pg_members *ret_members) PG_MUST_CHECK;

/* place_watch.c: before the first Environment; without it they are watched in another way. */
int pg_place_watch_open(struct pg_host *host, struct pg_error *err) PG_MUST_CHECK;
/* Watches for their first and last process; one that is gone is not watched. */
int pg_places_watch(struct pg_environment *environment, struct pg_error *err) PG_MUST_CHECK;
void pg_place_unwatch(struct pg_place *place);

/* addresses.c: the addresses of this process's network namespace, kept current */
int pg_addresses_watch(struct pg_host *host, struct pg_error *err) PG_MUST_CHECK;
bool pg_addresses_have(const struct pg_addresses *addresses, const struct pg_addr *addr);
/* They stay the host's. */
const struct pg_addr *pg_addresses_list(const struct pg_addresses *addresses, size_t *ret_count);
/* Whether the host itself may be who receives at the address. */
bool pg_addresses_may_receive(const struct pg_addresses *addresses, const struct pg_addr *addr);
void pg_addresses_free(struct pg_addresses *addresses);

/* member_addresses.c */
int pg_member_addresses_choose(struct pg_environment *environment,
			       const struct pg_environment_options *options,
			       struct pg_error *err) PG_MUST_CHECK;
/* Of a kept Environment: as its record says. */
int pg_member_addresses_recall(struct pg_environment *environment,
			       struct pg_error *err) PG_MUST_CHECK;
/* Makes them known to the kernel, and watches the members that have any. */
int pg_member_addresses_start(struct pg_environment *environment,
			      struct pg_error *err) PG_MUST_CHECK;
bool pg_member_addresses_have(const struct pg_environment *environment, const struct pg_addr *addr);
/* It has been confined again, and its homes are known. */
void pg_member_addresses_renew(struct pg_environment *environment, size_t member);
void pg_member_addresses_free(struct pg_environment *environment);

/* links.c: the guards of links (homes.h) */
int pg_links_watch(struct pg_host *host, struct pg_error *err) PG_MUST_CHECK;
void pg_links_free(struct pg_link_watch *watch);
/* As the headers of the members. */
int pg_links_write(struct pg_environment *environment, struct pg_error *err) PG_MUST_CHECK;
/* links_end.c: takes all of the Environment's off. */
int pg_links_end(struct pg_environment *environment, struct pg_error *err) PG_MUST_CHECK;
/* Leaves them as they are, to the next owner. */
void pg_links_leave(struct pg_environment *environment);
/* Of a kept Environment: those that its record names; then, once they are written, this process's
 * filters in the place of those that are there. */
int pg_links_recall(struct pg_environment *environment, struct pg_error *err) PG_MUST_CHECK;
int pg_links_renew(struct pg_environment *environment, struct pg_error *err) PG_MUST_CHECK;
/* What a record without an owner names. */
int pg_links_remains_remove(struct pg_host *host, const char *name,
			    struct pg_error *err) PG_MUST_CHECK;
/* Denies everything on them: nobody can adopt it. */
void pg_links_shut(struct pg_host *host, const char *name);
/* In the kernel's table, and of no kept Environment. */
void pg_links_sweep(struct pg_host *host);

/* self_probe.c: from inside each member */
int pg_self_probe_denied(const struct pg_environment *environment,
			 struct pg_error *err) PG_MUST_CHECK;
int pg_self_probe_in_force(const struct pg_environment *environment,
			   struct pg_error *err) PG_MUST_CHECK;

/* spawn.c: a child of this process in the cgroup; runs function and exits with its result. */
int pg_spawn_function(int cgroup_fd, int (*function)(void *userdata), void *userdata,
		      pid_t *ret_pid, struct pg_error *err) PG_MUST_CHECK;

/* A new cgroup below the first member's; name is STEM-RANDOM. */
int pg_spawn_cgroup(const struct pg_environment *environment, const char *stem, char *name,
		    size_t room, int *ret_fd, struct pg_error *err) PG_MUST_CHECK;

/* create.c: the header's magic, flags and ceiling. */
void pg_environment_set_flags(struct pg_environment *environment);

/* environment.c: writes what its state file says. Nothing to do unless it is kept. */
int pg_environment_save(struct pg_environment *environment, struct pg_error *err) PG_MUST_CHECK;

/* end.c: ends whatever exists of the Environment, in the way of environment->intent; the record
 * goes last. */
int pg_environment_undo(struct pg_environment *environment, struct pg_error *err) PG_MUST_CHECK;

/* ending.c: takes over one whose end has failed, to try again; false: there is nothing to be tried,
 * or it is for the next start. */
bool pg_ending_take(struct pg_environment *environment);
/* The same, and it is waited for. false: not for want of time, or nobody would hear of it. */
bool pg_ending_wait(struct pg_environment *environment, int error);
/* Whether one of the name is not ended yet. */
bool pg_ending_has(const struct pg_host *host, const char *name);
/* A member of one has changed: the last process may be dead. */
void pg_ending_look(struct pg_environment *environment);
int pg_ending_start(struct pg_host *host, struct pg_error *err) PG_MUST_CHECK;
/* Leaves them to the next start. */
void pg_ending_leave(struct pg_host *host);

/*
 * Clears the kernel's tables of the Environment, but for headers and sets: while its record still
 * says whose it is, since nobody could tell afterwards. What is released has nothing within it for
 * a moment.
 */
void pg_remains_forget(struct pg_host *host, uint64_t env_id);

/* orphan.c */
/* Warns of a record without cgroups that is left alone: what of it there is, and what to do. */
void pg_orphan_warn_unwritten(const struct pg_host *host, const char *name,
			      const struct pg_saved *saved, const char *what);
int pg_orphans_end(struct pg_host *host, int records_fd, struct pg_error *err) PG_MUST_CHECK;
/*
 * Takes the programs off the cgroups, and removes cgroup and record. Ends the tree before that if
 * kill is set.
 */
int pg_remains_remove(struct pg_host *host, int records_fd, const struct pg_record *record,
		      bool kill, struct pg_error *err) PG_MUST_CHECK;
/* The parent of the cgroups that are made, if nothing is in it, and its guard. */
void pg_parent_remove(struct pg_host *host);

/* pins.c */
/* -EBUSY: another process has it. Under the lock of the records, as the guard. */
int pg_pins_lock(struct pg_host *host, struct pg_error *err) PG_MUST_CHECK;
/* Makes the directory of all pins, if need be; -EPERM if it is not this user's alone. */
int pg_pins_root(struct pg_error *err) PG_MUST_CHECK;
int pg_pins_guard(struct pg_host *host, int records_fd, struct pg_error *err) PG_MUST_CHECK;
/* The same if the guard is not in force, which is quickly seen: somebody has removed the parent. */
int pg_pins_guard_again(struct pg_host *host, int records_fd, struct pg_error *err) PG_MUST_CHECK;
/* With nothing kept, nothing stays pinned. */
void pg_pins_leave(struct pg_host *host);

/* kept.c: under the lock of the records */
/* Reads the states of kept Environments of the host's pins that nobody owns; changes nothing. */
int pg_kept_read(struct pg_host *host, int records_fd, struct pg_error *err) PG_MUST_CHECK;
/* Marks as used what they use in the kernel, and settles what was half done. */
int pg_kept_settle(struct pg_host *host, int records_fd, struct pg_error *err) PG_MUST_CHECK;
struct pg_kept *pg_kept_find(const struct pg_host *host, const char *name);
/* It has been adopted, or could not be: then what its headers name stays. */
void pg_kept_drop(struct pg_host *host, struct pg_kept *kept, bool adopted);
/* Lets go of what it has in use of the bank, which is not there any more. */
void pg_kept_release_bank(struct pg_host *host, struct pg_kept *kept, unsigned int bank);
void pg_kept_clear(struct pg_host *host);
