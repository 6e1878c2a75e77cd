/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to user/environment/: names. The resolver in the path of one Environment, what its
 * answers teach, and the network namespaces in which it listens (sites).
 *
 *   dns.c          policy: which names may be asked, what is learned
 *   dns_sites.c    listeners, opened where the Environment's processes are
 *   dns_learning.c lifetime of learned addresses
 *   dns_quota.c    how many of them each entry may have
 */
#pragma once

#include <stdbool.h>
#include <sys/queue.h>

#include <phasegate/abi/event.h>

#include "compile/name_index.h"
#include "dns/listener.h"
#include "dns/resolv_conf.h"
#include "host_internal.h"
#include "learned.h"

/* Namespaces that are served at once, each with some eight descriptors: as many as a soft limit of
 * 1,024 has room for. A workload can make any number of them. */
#define PG_SITES_MAX 64

/* Queries kept until a listener is open in their namespace. */
#define PG_PARKED_MAX 64

/* Messages of a kind about single addresses, entries or namespaces; a workload could cause any
 * number. */
#define PG_DNS_MESSAGES_MAX 10

/* "*." and a name. */
#define PG_OWNER_TEXT 260

struct pg_parked {
	uint64_t netns; /* cookie; 0: not known */
	struct pg_peer peer;
	size_t size;
	uint8_t data[PG_DNS_PARKED_MAX];
};

/* A network namespace of the Environment. */
struct pg_site {
	LIST_ENTRY(pg_site) link;
	struct pg_dns *dns;
	int netns_fd;
	uint64_t inode;
	bool home; /* the namespace of this process: stays as long as the Environment */
	struct pg_listener *listener; /* NULL: lost, or could not be opened; tried again later */
	struct pg_source source;
	unsigned int own_upstream; /* 0: none */
	uint64_t opened;	   /* when that was tried last, CLOCK_MONOTONIC */
	bool warned;		   /* that it cannot be opened */
};

struct pg_dns {
	struct pg_environment *environment;
	struct pg_dns_settings settings;
	struct pg_name_index *index;
	struct pg_budget *budget;
	struct pg_resolver *resolver;
	struct pg_source resolver_source;
	unsigned int upstream; /* 0: the Environment's own only */
	struct pg_endpoint own_resolvers[PG_NAMESERVERS_MAX];
	size_t own_resolver_count;
	/* Sites. */
	LIST_HEAD(pg_site_list, pg_site) sites;
	size_t site_count;
	bool told_refused;	 /* that a namespace is not served */
	unsigned int told_sites; /* messages about namespaces so far */
	struct pg_parked parked[PG_PARKED_MAX];
	size_t parked_count;
	bool unserved;	   /* some namespace has no listener */
	uint64_t serve_at; /* when that may be looked into again, CLOCK_MONOTONIC */
	bool hurried;	   /* the timer is set to look again as soon as may be */
	int timer_fd;
	struct pg_source timer;
	int populated_fd; /* cgroup.events; -1 before the cgroup exists */
	struct pg_source populated;
	/* Learning. */
	struct pg_learned_book *book;
	struct pg_kernel_learned *lists[PG_PHASE_COUNT];
	uint64_t swept_at;
	unsigned int told_unlearnable, told_shared, told_draining; /* messages so far */
	uint32_t told_full[PG_DNS_MESSAGES_MAX];		   /* owners */
	unsigned int told_full_count;
	char owner_text[PG_OWNER_TEXT];
};

/* Reads what names need, and resolves them; before the cgroup exists. Sets environment->dns, or
 * leaves it NULL if the policy has no names. */
int pg_dns_create(struct pg_environment *environment, const struct pg_environment_options *options,
		  struct pg_error *err) PG_MUST_CHECK;
void pg_dns_destroy(struct pg_environment *environment);

/* Listens in this process's namespace; once the cgroup is attached and before its header is
 * written, of which it fills what is about DNS. */
int pg_dns_start(struct pg_dns *dns, struct pg_error *err) PG_MUST_CHECK;

/* An event of the kernel; what follows from it is done by pg_dns_serve(). */
void pg_dns_note(struct pg_dns *dns, const struct pg_event *event);
void pg_dns_serve(struct pg_dns *dns);

/* dns.c */
void pg_dns_ask(struct pg_dns *dns, const struct pg_site *site, const struct pg_peer *peer,
		bool tcp, const uint8_t *message, size_t size);
/* The upstream of names with several labels for queries from the site, and of those with one. */
unsigned int pg_dns_upstream(const struct pg_dns *dns, const struct pg_site *site);

/* dns_sites.c */
int pg_sites_start(struct pg_dns *dns, struct pg_error *err) PG_MUST_CHECK;
void pg_sites_close(struct pg_dns *dns);
/* Opens what is missing and closes what no process is in any more. */
void pg_sites_tend(struct pg_dns *dns);
/* This process's namespace; there once pg_sites_prepare() has been called. */
int pg_sites_prepare(struct pg_dns *dns, struct pg_error *err) PG_MUST_CHECK;
struct pg_site *pg_sites_home(const struct pg_dns *dns);

/* dns_learning.c */
int pg_learning_start(struct pg_dns *dns, struct pg_error *err) PG_MUST_CHECK;
/* A pg_resolver_hooks.commit; userdata is the struct pg_dns. */
int pg_learning_commit(void *userdata, const char *name, const struct pg_addr *addr, uint32_t ttl);
/* An address that does not expire. */
int pg_learning_add_fixed(struct pg_dns *dns, const char *name, const struct pg_addr *addr,
			  struct pg_error *err) PG_MUST_CHECK;
/* Ends the draining of what nobody uses any more. */
void pg_learning_tend(struct pg_dns *dns);

/*
 * dns_quota.c: owners of learned addresses (learned.h) are the host entries, then the wildcards, as
 * the index numbers them. A name belongs to the host entry that has it, else to the longest
 * wildcard, whichever list has that.
 */
#define PG_OWNER_NONE UINT32_MAX
/* lists != 0 unless it is PG_OWNER_NONE ("localhost" belongs to nobody). */
struct pg_learned_teacher pg_quota_teacher(const struct pg_name_index *index, const char *name);
size_t pg_quota_owners(const struct pg_name_index *index);
/* The quota of each owner, in an array that is the caller's to free; NULL: no memory. */
uint32_t *pg_quota_make(const struct pg_name_index *index, size_t addresses_max);
/* What a list's table must have room for. */
size_t pg_quota_capacity(const struct pg_name_index *index, const uint32_t *quotas,
			 unsigned int list, size_t addresses_max);
/* The entry as the policy spells it. */
const char *pg_quota_text(const struct pg_name_index *index, uint32_t owner,
			  char ret_text[static PG_OWNER_TEXT]);
