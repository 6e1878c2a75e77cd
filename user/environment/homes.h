/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to user/environment/: homes. A home is a network namespace of a member that the host gave
 * it: the one of this process, one whose owner is this process's user namespace, or one that a veth
 * joins to the namespace of this process. One that the workload makes in a user namespace of its
 * own is none. The addresses in the homes are the Environment's own (pg_own), kept current by
 * rtnetlink(7); nothing here keeps a namespace alive.
 *
 *   homes.c          the homes of an Environment, from the first look to the last
 *   homes_host.c     when that is looked into, and what the kernel says meanwhile
 *   homes_scan.c     one look at the processes
 *   homes_netlink.c  asking and hearing the kernel
 *   homes_hidden.c   those that nobody is seen in
 *   homes_begun.c    what was there before the workload could change it
 *   home_addresses.c the addresses of a home, and what the maps say of them
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include <phasegate/abi/link.h>

#include "base/error.h"
#include "net/addr.h"

struct pg_environment;
struct pg_homes_netlink;
struct pg_host;

/* Of one Environment; what is in others has no address of its own but loopback. */
#define PG_HOMES_MAX	      1024
/* Of one home. */
#define PG_HOME_ADDRESSES_MAX 1024

struct pg_home_address {
	unsigned int ifindex;
	struct pg_addr addr;
	bool seen;    /* in the list that is being read */
	bool pending; /* whose it is, is still to be found out: not own yet */
};

struct pg_links; /* links.c: the veth guards of a home */

struct pg_home {
	LIST_ENTRY(pg_home) link; /* of environment->homes */
	struct pg_environment *environment;
	ino_t inode; /* of the namespace */
	int nsid;    /* by which this process's namespace knows it; -1 if it is that one itself */
	uint64_t netns; /* cookie; 0: not known */
	bool is_host;
	bool hidden;	  /* homes_hidden.c: nobody has been seen there, something was executed */
	uint64_t members; /* a bit each: those that have a process there */
	/* The workload could give itself any address there: what it has now stays, and nothing is
	 * added, for good, but what the runtime names. */
	bool fixed;
	bool fixed_for_good;  /* it has been seen for longer than a runtime takes to begin */
	bool stale_links;     /* what is believed of them has changed: they are looked at again */
	uint64_t fixed_since; /* CLOCK_MONOTONIC ns */
	/* homes_begun.c: by what the kernel says of it */
	bool told;		/* when a program begins that may change it */
	bool untouched;		/* and none has so far: all of it is its runtime's doing */
	bool poised;		/* one may any moment: a process is there that executes it */
	struct pg_begun *begun; /* what was there then; NULL: it is not known */
	bool permanent;		/* of the host's own: whoever comes first may be there */
	bool waiting;		/* the same until somebody has come, wherever that is */
	/* Of the host's own: somebody has stayed there. A runtime passes through it. */
	bool confirmed;
	bool guarded;			   /* pg_links_guard() has been called */
	struct pg_home_address *addresses; /* of the host's own there are none here */
	size_t count, room;
	uint64_t found;		/* CLOCK_MONOTONIC ns */
	uint64_t empty_since;	/* the same; 0: a process is there */
	struct pg_links *links; /* NULL: none */
};
LIST_HEAD(pg_home_list, pg_home);

/* Of one Environment, besides the list. All times are CLOCK_MONOTONIC ns. */
struct pg_homes_state {
	uint64_t look_at; /* 0: not at all */
	uint64_t looked, pause;
	unsigned int more; /* looks that follow the next one */
	uint64_t step;	   /* before the next of them */
	bool pending;	   /* addresses are */
	unsigned int told; /* messages so far */
};

/*
 * links.c. Called for each home: before the phase is put in force where it is known by then, else
 * as soon as it is found; and once more if what was thought to be the workload's doing has turned
 * out to be its runtime's. A failure fails the creation; later it is a warning.
 */
int pg_links_guard(struct pg_home *home, struct pg_error *err) PG_MUST_CHECK;
/* Something about the namespace has changed, and its devices may have before that. */
void pg_links_look_soon(struct pg_home *home);
/* From the first Environment on: links without a guard. */
void pg_links_hold(struct pg_host *host);
/* Before the home goes. keep: the guard stays for the next owner of the Environment. */
void pg_links_release(struct pg_home *home, bool keep);

/* homes_host.c */
int pg_homes_watch(struct pg_host *host, struct pg_error *err) PG_MUST_CHECK;
void pg_homes_free(struct pg_host *host);
struct pg_homes_netlink *pg_homes_netlink(const struct pg_host *host);
/* There is a namespace that no home is known of, as a new link's peer: look whose it is, soon. */
void pg_homes_look(struct pg_host *host);
/* The same for one Environment, because of an address that is not known. */
void pg_homes_look_into(struct pg_environment *environment);
/* Somebody comes or goes: looks at once, and for a while. */
void pg_homes_follow(struct pg_environment *environment);
/* An address of this process's namespace has come or gone. */
void pg_homes_host_changed(struct pg_host *host, const struct pg_addr *addr);

/* homes.c: why it is looked */
enum pg_homes_look {
	PG_HOMES_CREATE, /* who is there stays there */
	PG_HOMES_ADOPT,	 /* the same; what the kernel knows already is own */
	PG_HOMES_LATER,	 /* a runtime may be on its way */
};
/* All homes that there are now, with their addresses and links. */
int pg_homes_start(struct pg_environment *environment, enum pg_homes_look why,
		   struct pg_error *err) PG_MUST_CHECK;
/* Once more; new ones are in force after it. */
int pg_homes_renew(struct pg_environment *environment, enum pg_homes_look why,
		   struct pg_error *err) PG_MUST_CHECK;
/* keep: what is in the kernel stays. */
void pg_homes_end(struct pg_environment *environment, bool keep);
void pg_home_remove(struct pg_home *home);
/* One more, of which nothing is known yet. NULL: there is no room. */
struct pg_home *pg_home_insert(struct pg_environment *environment, ino_t inode, int nsid,
			       struct pg_error *err);
/* A child of this process is in the namespace of this process for a while. */
int pg_homes_visit(struct pg_environment *environment, struct pg_error *err) PG_MUST_CHECK;
void pg_homes_end_visit(struct pg_environment *environment);
/* A warning about the Environment; a bounded number of times. */
void pg_homes_warn(struct pg_environment *environment, const char *code, struct pg_error *err);
/* The same of an address that is not taken; err says why. */
void pg_homes_tell_refused(struct pg_environment *environment, const struct pg_addr *addr,
			   struct pg_error *err);

/* home_addresses.c */
/* On any of its interfaces. */
bool pg_home_has(const struct pg_home *home, const struct pg_addr *addr);
/* Reads all of them; of a home that is fixed, new ones only if the kernel has them as own. */
int pg_home_read(struct pg_home *home, enum pg_homes_look why, struct pg_error *err) PG_MUST_CHECK;
/* Reads them again: messages were lost. */
void pg_home_read_again(struct pg_home *home);
void pg_home_hear(struct pg_home *home, unsigned int ifindex, const struct pg_addr *addr,
		  bool there);
/* A program has begun while it was read: what it may have done is dropped. */
void pg_home_doubt(struct pg_home *home);
/* Takes or refuses what was heard of while it was not known whose it is. */
void pg_home_settle(struct pg_home *home);
/* Makes the kernel's map say what the homes say of the address. */
void pg_homes_publish(struct pg_environment *environment, const struct pg_addr *addr);
/* The same of all addresses; others are none. */
int pg_homes_publish_all(struct pg_environment *environment, struct pg_error *err) PG_MUST_CHECK;

/* homes_hidden.c */
/* After what was seen is in homes. */
int pg_homes_take_hidden(struct pg_environment *environment, bool *changed,
			 struct pg_error *err) PG_MUST_CHECK;
/* A host end has gone. */
void pg_homes_forget_end(struct pg_host *host, unsigned int ifindex);
/* Those that have gone while nobody heard of it. */
void pg_homes_sweep_ends(struct pg_host *host);

/* homes_begun.c */
/* Of a new one, whose owner the user namespace is. */
void pg_home_begin(struct pg_home *home, enum pg_homes_look why, ino_t owner);
/* Whether all that has been read of it until now is its runtime's doing; what has changed about
 * that is noted in it. */
bool pg_home_is_untouched(struct pg_home *home);
/* What it had when the workload began. */
bool pg_home_began_with(const struct pg_home *home, const struct pg_addr *addr);
bool pg_home_began_as(const struct pg_home *home, unsigned int ifindex, pg_station *ret_station);

/* homes_scan.c: the network namespaces in which the Environment's processes are now */
struct pg_scanned {
	ino_t inode;
	int fd;
	ino_t owner; /* user namespace; 0: above ours, which is none of our business */
	uint64_t members;
	bool admin;    /* a process could change addresses there */
	bool started;  /* and is no runtime's: it has another root directory than this process */
	bool executed; /* and is more than a child of the runtime's: it has executed something */
};
struct pg_scan {
	struct pg_scanned *items;
	size_t count, room;
	/* Members of which a process is in a namespace whose owner is not that of its pid
	 * namespace, as a runtime's would be: it has left the one that it was given. */
	uint64_t left;
};
int pg_scan_make(const struct pg_environment *environment, struct pg_scan *ret_scan,
		 struct pg_error *err) PG_MUST_CHECK;
/* After what was found is in homes. -EAGAIN: a member has processes, but none was seen. */
int pg_scan_refuse_hidden(const struct pg_environment *environment, const struct pg_scan *scan,
			  struct pg_error *err) PG_MUST_CHECK;
void pg_scan_clear(struct pg_scan *scan);

/* homes_netlink.c */
struct mnl_socket;
struct pg_homes_netlink {
	struct mnl_socket *heard; /* NULL: nothing is heard of other namespaces */
	struct mnl_socket *asked;
};
struct pg_homes_hears {
	void (*address)(void *userdata, int nsid, unsigned int ifindex, const struct pg_addr *addr,
			bool there);
	void (*made)(void *userdata, int nsid); /* the number has been given to a namespace */
	void (*gone)(void *userdata, int nsid);
	void *userdata;
};
typedef int (*pg_home_visit)(void *userdata, unsigned int ifindex, const struct pg_addr *addr);

/* -EPERM: nothing will be heard, but asking works. */
int pg_homes_netlink_open(struct pg_homes_netlink *netlink, struct pg_error *err) PG_MUST_CHECK;
void pg_homes_netlink_close(struct pg_homes_netlink *netlink);
/* What has been heard, or some of it. -ENOBUFS: messages were lost. */
int pg_homes_netlink_read(struct pg_homes_netlink *netlink, const struct pg_homes_hears *hears,
			  struct pg_error *err) PG_MUST_CHECK;
/* -1: it has none, and none was to be assigned. */
int pg_homes_netlink_id(struct pg_homes_netlink *netlink, int netns_fd, bool assign, int *ret_nsid,
			struct pg_error *err) PG_MUST_CHECK;
int pg_homes_netlink_addresses(struct pg_homes_netlink *netlink, int nsid, pg_home_visit visit,
			       void *userdata, struct pg_error *err) PG_MUST_CHECK;
/* Whether a veth joins this process's namespace to the other. */
int pg_homes_netlink_joined(struct pg_homes_netlink *netlink, int nsid, bool *ret_joined,
			    struct pg_error *err) PG_MUST_CHECK;
