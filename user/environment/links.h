/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to user/environment/: the life of the veth guard (kernel/link.h). A home's way out is a
 * veth whose other end, the host end, is in this process's network namespace; the guard is on that
 * one for as long as the Environment lives. What was guarded once stays so, wherever the workload
 * moves its own end to.
 *
 *   devices.c       interfaces, as the kernel tells of them; routes.c: addresses and routers
 *   veths.c         the host ends that there are
 *   links.c         which of them have the guard of which Environment
 *   links_home.c    the ways out of a home, those that no guard can be on too
 *   links_who.c     who lives in a home
 *   links_hops.c    whom it may ask its neighbours for
 *   links_inner.c    their other ends
 *   links_new.c      what those have that no guard is on
 *   links_end.c     how a guard ends, or goes to the next owner
 *   links_record.c  the file "links" of a record: what a killed process leaves
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <phasegate/abi/link.h>

#include "devices.h"
#include "host_internal.h"

/* A host end. */
struct pg_veth {
	LIST_ENTRY(pg_veth) link;
	unsigned int ifindex, peer, master;
	int nsid; /* of the peer's namespace; PG_NSID_NONE: it is here, too */
	char name[IF_NAMESIZE];
	char device[IF_NAMESIZE]; /* the peer's name; empty: not known */
	unsigned int list;	  /* the last one in which it was */
	bool touched;		  /* something about it is new */
	bool failed;		  /* it has no guard that it should have */
	bool told;		  /* so it was said; not again until it has one */
	bool held;		  /* links_new.c */
	bool fresh;		  /* its guard has not seen yet where its neighbours are */
	bool inner;		  /* links_inner.c: its other end has what it needs */
	bool passable;		  /* or the kernel has nothing of the kind */
	/* Whose guard is on it; NULL: nobody's. */
	struct pg_environment *owner;
	size_t member;	/* whose header it has */
	uint64_t inode; /* of the namespace in which the peer was; 0: not known */
	bool shared;	/* others live in that namespace, too */
	bool targets;	/* PG_LINK_TARGETS */
	struct pg_link_stations stations;
	bool unwritten; /* they are new */
};

/* Who lives in a home. */
struct pg_who {
	size_t member;	/* one that has a process there */
	pid_t pid;	/* that process; 0: none was seen */
	uint64_t since; /* CLOCK_MONOTONIC ns: somebody has who is of no member; 0: nobody */
	pid_t other;	/* that one */
	bool shared;	/* and stays there: a runtime's helper comes and goes */
	bool targets;	/* whom the home may ask its neighbours for is known */
};

struct pg_process {
	pid_t pid;
	uint64_t inode; /* of its network namespace */
};

#define PG_VETH_BUCKETS 256
LIST_HEAD(pg_veth_list, pg_veth);

struct pg_link_watch {
	struct pg_host *host;
	struct mnl_socket *events, *query;
	struct pg_source events_source, timer_source;
	int timer_fd;
	uint64_t again_at; /* CLOCK_MONOTONIC ns; 0: not set */
	struct pg_veth_list veths[PG_VETH_BUCKETS];
	unsigned int list; /* the current one, a number */
	bool holding;	   /* links_new.c */
	bool hold_failed;
	bool incomplete; /* a list that was asked for was not whole */
	bool missed;	 /* a home could not be looked at */
	uint64_t pause;	 /* until what has failed is tried again, ns */
	/* Where an interface of this namespace has gone: ends whose peer it may be. */
	unsigned int *left;
	size_t left_count, left_room;
	/* All processes, as they were not long ago. */
	struct pg_process *processes;
	size_t process_count, process_room;
	uint64_t processes_at; /* CLOCK_MONOTONIC ns */
};

#define PG_VETH_FOREACH(watch, bucket, veth) \
	for (size_t bucket = 0; bucket < PG_VETH_BUCKETS; bucket++) \
		LIST_FOREACH (veth, &(watch)->veths[bucket], link)

/* veths.c */
int pg_veths_open(struct pg_link_watch *watch, struct pg_error *err) PG_MUST_CHECK;
void pg_veths_close(struct pg_link_watch *watch);
/* Takes in what has happened. */
int pg_veths_read(struct pg_link_watch *watch, struct pg_error *err) PG_MUST_CHECK;
/* The same, after asking for this one. */
int pg_veths_read_one(struct pg_link_watch *watch, unsigned int ifindex,
		      struct pg_error *err) PG_MUST_CHECK;
struct pg_veth *pg_veth_find(struct pg_link_watch *watch, unsigned int ifindex);
void pg_veth_set_station(struct pg_veth *veth, pg_station *station, uint64_t value);
struct pg_veth *pg_veth_touched(struct pg_link_watch *watch);

/* links.c */
/* Puts the guard on, or makes it say who lives there; a link that has another Environment's is left
 * alone. */
int pg_veth_guard(struct pg_home *home, struct pg_veth *veth, const struct pg_who *who,
		  struct pg_error *err) PG_MUST_CHECK;
/* A host end is gone; its owner's record still has it. */
void pg_veth_lost(struct pg_link_watch *watch, const struct pg_veth *veth);
/* Takes it off; the record still has it. */
int pg_veth_take_off(struct pg_veth *veth, struct pg_error *err) PG_MUST_CHECK;
int pg_veth_write(const struct pg_veth *veth, struct pg_error *err) PG_MUST_CHECK;
/* Of another Environment than this one (NULL: of any). NULL: it is nobody's home. */
struct pg_home *pg_home_of(const struct pg_host *host, int nsid, const struct pg_environment *but);
/* Looks again at who lives where, not later than that. */
int pg_links_again(struct pg_host *host, uint64_t after_ns, struct pg_error *err) PG_MUST_CHECK;

/* links_inner.c: nothing comes past the guard; before that is there, and after it has gone. */
int pg_veth_close_inner(const struct pg_home *home, struct pg_veth *veth, const struct pg_who *who,
			struct pg_error *err) PG_MUST_CHECK;
void pg_veth_open_inner(const struct pg_link_watch *watch, struct pg_veth *veth);

/* links_new.c: what it has without a guard: on before that goes, off when that is there. */
void pg_veth_hold(struct pg_link_watch *watch, struct pg_veth *veth);
void pg_veth_let_go(const struct pg_link_watch *watch, struct pg_veth *veth);
/* When the process ends: unless something of it stays. */
void pg_links_unhold(struct pg_link_watch *watch);

/* links_home.c: a way out of a home, but for those that its veths have a guard on. */
struct pg_open_link {
	char device[IF_NAMESIZE];
	char interface[IF_NAMESIZE]; /* of this namespace; empty: none */
	enum pg_unguarded reason;
};
#define PG_OPEN_LINKS_MAX 64
/* Whom a home may ask its neighbours for. */
#define PG_HOPS_MAX	  32
struct pg_hops {
	struct pg_addr items[PG_HOPS_MAX];
	size_t count;
	size_t hosts; /* so many at the beginning are the host's */
	bool known;   /* with those of IPv4 */
	/* What it needs no router for. */
	struct pg_prefix networks[PG_LINK_NETWORKS];
	size_t network_count;
	bool routed; /* its routes have said so, too */
};
struct pg_links {
	struct pg_who who;
	struct pg_hops hops;
	unsigned int young; /* looks that are still due: a runtime may be at work there */
	struct pg_open_link open[PG_OPEN_LINKS_MAX];
	size_t count;
};
/* Looks at its interfaces, and guards what can be guarded. */
int pg_links_look(struct pg_home *home, struct pg_error *err) PG_MUST_CHECK;

/* Its creation is over, or it has been adopted. */
static inline bool pg_environment_is_made(const struct pg_environment *environment)
{
	return environment->state.generation;
}

/* links_who.c: *who is what is known so far. */
int pg_home_look_who(const struct pg_home *home, struct pg_who *who,
		     struct pg_error *err) PG_MUST_CHECK;
/* Whether that other one is still there, and still of no member. */
bool pg_home_has_other(const struct pg_home *home);

/* links_hops.c: *hops is what is known so far. */
int pg_home_read_hops(struct pg_home *home, const struct pg_who *who, struct pg_hops *hops,
		      struct pg_error *err) PG_MUST_CHECK;
void pg_veth_set_networks(struct pg_veth *veth, const struct pg_hops *hops);
/* Of an Environment that has been adopted: the networks that its last owner has set. */
void pg_hops_recall(struct pg_hops *hops, const struct pg_link_stations *stations);

/* links_record.c */
#define PG_LINKS_FILE "links"
/* The network namespace that this process is in, by its inode. */
uint64_t pg_links_namespace(void);
/* Interfaces of this namespace by their indexes; the caller frees *ret_items. None is no error. */
int pg_links_file_read(int record_fd, unsigned int **ret_items, size_t *ret_count,
		       struct pg_error *err) PG_MUST_CHECK;
int pg_links_file_write(struct pg_environment *environment, struct pg_error *err) PG_MUST_CHECK;
/* Whether the record of another Environment has the interface. */
int pg_links_file_elsewhere(const char *name, unsigned int ifindex, bool *ret_elsewhere,
			    struct pg_error *err) PG_MUST_CHECK;
