/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to user/environment/: names. The resolver in the path of one Environment, what its
 * answers teach, and the network namespaces in which it listens (sites).
 *
 *   dns.c          policy: which names may be asked, what is learned
 *   names.c        names of a policy, and where what they teach goes
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

/* The names of a policy. */
struct pg_names {
	struct pg_environment *environment;
	struct pg_name_index *index;
	struct pg_budget *budget;
	uint32_t *quotas; /* of the owners, and of what was there before the book */
	struct pg_learned_book *book;
	struct pg_kernel_learned *lists[PG_PHASE_COUNT];
	char owner_text[PG_OWNER_TEXT];
};

int pg_names_new(struct pg_environment *environment, const struct pg_content *content,
		 struct pg_names **ret_names, struct pg_error *err) PG_MUST_CHECK;
void pg_names_free(struct pg_names *names);
/* What the list's table must have room for. */
size_t pg_names_capacity(const struct pg_names *names, unsigned int list, size_t addresses_max);
/* Once the tables are there. */
int pg_names_open_book(struct pg_content *content, struct pg_error *err) PG_MUST_CHECK;
/* Writes into the book what the kernel's tables say. */
int pg_names_recall(struct pg_content *content, struct pg_error *err) PG_MUST_CHECK;
/* What names that are in both have taught goes on. */
int pg_names_carry_over(const struct pg_content *from, struct pg_content *into,
			struct pg_error *err) PG_MUST_CHECK;

struct pg_parked {
	uint64_t netns; /* cookie; 0: not known */
	struct pg_peer peer;
	size_t size;
	uint8_t data[PG_DNS_PARKED_MAX];
};

struct pg_members;

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
	struct pg_resolver *resolver;
	struct pg_source resolver_source;
	unsigned int upstream; /* 0: the Environment's own only */
	/* Sites. */
	LIST_HEAD(pg_site_list, pg_site) sites;
	size_t site_count;
	bool told_refused;	 /* that a namespace is not served */
	unsigned int told_sites; /* messages about namespaces so far */
	struct pg_parked parked[PG_PARKED_MAX];
	size_t parked_count;
	bool leaving;	   /* listeners close for the next owner */
	bool unserved;	   /* some namespace has no listener */
	uint64_t serve_at; /* when that may be looked into again, CLOCK_MONOTONIC */
	bool hurried;	   /* the timer is set to look again as soon as may be */
	int timer_fd;
	struct pg_source timer;
	/* Learning. */
	uint64_t swept_at;
	unsigned int told_unlearnable, told_shared, told_draining; /* messages so far */
	uint32_t told_full[PG_DNS_MESSAGES_MAX];		   /* owners */
	unsigned int told_full_count;
	/* Refused queries: reported in the second, and not reported at all. */
	uint64_t refusals_second, refusals_unreported;
	unsigned int refusals;
};

/* Sets environment->dns. Before the cgroups exist: nothing is asked or served yet. */
int pg_dns_create(struct pg_environment *environment, struct pg_error *err) PG_MUST_CHECK;
/* Resolves the names that the content spells out, so that what is wrong is said at the start. */
int pg_dns_load(struct pg_dns *dns, struct pg_content *content, struct pg_error *err) PG_MUST_CHECK;
/* keep: what the kernel knows of listeners stays, for the next owner. */
void pg_dns_destroy(struct pg_environment *environment, bool keep);

/* Listens in this process's namespace, once the cgroups are attached and before the headers are
 * written; chooses the endpoints in environment->header. */
int pg_dns_start(struct pg_dns *dns, struct pg_error *err) PG_MUST_CHECK;
/* Listens at the endpoints of the header again, in all namespaces. */
int pg_dns_resume(struct pg_dns *dns, struct pg_error *err) PG_MUST_CHECK;

/* dns_parked.c */
/* An event of the kernel; what follows from it is done by pg_dns_serve(). */
void pg_dns_note(struct pg_dns *dns, const struct pg_event *event);
void pg_dns_serve(struct pg_dns *dns);

/* dns_store.c */
void pg_site_take_sockets(const struct pg_site *site, int sockets[PG_LISTENER_SOCKETS]);
void pg_site_keep_sockets(const struct pg_site *site);
void pg_site_drop_sockets(const struct pg_site *site);

/* dns.c */
void pg_dns_ask(struct pg_dns *dns, const struct pg_site *site, const struct pg_peer *peer,
		bool tcp, const uint8_t *message, size_t size);
/* The upstream of names with several labels for queries from the site, and of those with one. */
unsigned int pg_dns_upstream(const struct pg_dns *dns, const struct pg_site *site);

/* dns_sites.c */
int pg_sites_resume(struct pg_dns *dns, struct pg_error *err) PG_MUST_CHECK;
int pg_sites_start(struct pg_dns *dns, struct pg_error *err) PG_MUST_CHECK;
void pg_sites_close(struct pg_dns *dns, bool keep);
/* Opens what is missing and closes what no process is in any more. */
void pg_sites_tend(struct pg_dns *dns);
/* In the namespaces of the members where nobody listens yet. */
void pg_sites_open_missing(struct pg_dns *dns, const struct pg_members *members);
/* With the Environment's name before the text; a bounded number of times. */
void pg_sites_warn(struct pg_dns *dns, const char *code, struct pg_error *err);
/* Knows the namespaces of the processes that are there already, if these have nameservers of their
 * own to be asked; whether it is any but this process's. Nobody listens there yet. */
bool pg_sites_find(struct pg_dns *dns);
/* This process's namespace; there once pg_sites_prepare() has been called. */
int pg_sites_prepare(struct pg_dns *dns, struct pg_error *err) PG_MUST_CHECK;
struct pg_site *pg_sites_home(const struct pg_dns *dns);

/* dns_learning.c */
/* A pg_learned_options.shared; userdata is the struct pg_environment. */
void pg_learning_warn_shared(void *userdata, const struct pg_addr *addr, const char *name,
			     const char *other);
/* A pg_resolver_hooks.commit; userdata is the struct pg_dns. */
int pg_learning_commit(void *userdata, const char *name, const struct pg_addr *addr, uint32_t ttl);
/* An address that does not expire. */
int pg_learning_add_fixed(struct pg_dns *dns, struct pg_content *content, const char *name,
			  const struct pg_addr *addr, struct pg_error *err) PG_MUST_CHECK;
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
