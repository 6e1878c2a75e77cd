/* SPDX-License-Identifier: Apache-2.0 */
/* Private to user/environment/. */
#pragma once

#include <sys/queue.h>

#include "cgroup.h"
#include "compile/address_set.h"
#include "environment.h"
#include "kernel/attach.h"
#include "kernel/set.h"
#include "record.h"

/* Something that the host's descriptor waits for. */
struct pg_source {
	int (*process)(void *userdata, struct pg_error *err);
	void *userdata;
};

/* Parent of the cgroups that are made, below the cgroup2 mount. */
#define PG_CGROUP_PARENT "phasegate"

LIST_HEAD(pg_environment_list, pg_environment);

struct pg_host {
	struct pg_kernel *kernel;
	char *cgroup_mount;
	int cgroup_mount_fd;
	int epoll_fd;
	int interrupt_fd;	  /* readable: give up what takes long; -1: none; not owned */
	int aging_fd, closing_fd; /* timers */
	struct pg_source events, aging, closing;
	uint64_t closed_at; /* when stranded connections were closed last */
	/* The sources whose turn it is in pg_host_process(); one that is removed meanwhile is
	 * NULL. */
	struct pg_source **turn;
	size_t turn_count;
	struct pg_environment_list environments;
	pg_warning warning;
	void *userdata;
};

void pg_host_warn(const struct pg_host *host, const char *code, const char *message);

/* events: of epoll_ctl(2), EPOLLIN as a rule. */
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

struct pg_environment {
	LIST_ENTRY(pg_environment) link;
	struct pg_host *host;
	const struct pg_policy *policy;
	struct pg_record record;
	int record_fd;
	int cgroup_fd;
	struct pg_attachment attachment;
	struct pg_header header;     /* as in the kernel */
	bool in_kernel;		     /* the header may be written */
	struct pg_state_value state; /* of header.state, as in the kernel */
	struct pg_compiled compiled[PG_PHASE_COUNT];
	size_t compiled_count;
	unsigned int phase_compiled[PG_PHASE_COUNT]; /* index + 1; 0: no entries */
	struct pg_dns *dns;			     /* NULL: the policy has no names */
	/* Own addresses. */
	struct mnl_socket *addresses;
	struct pg_source addresses_source;
	bool stranded; /* a closing pass is due */
	struct pg_environment_cost cost;
};

/* What the phase in force allows. */
static inline const struct pg_phase_slot *
pg_environment_slot(const struct pg_environment *environment)
{
	return &environment->header.slots[environment->state.bank][environment->state.phase];
}

/* content.c: policy -> sets in the kernel */
int pg_content_create(struct pg_environment *environment,
		      const struct pg_environment_options *options,
		      struct pg_error *err) PG_MUST_CHECK;
void pg_content_destroy(struct pg_environment *environment);
/* Fills the phases of the header. */
void pg_content_describe(const struct pg_environment *environment, struct pg_header *header);
/* Whether the phase in force allows a new (or, if draining, an open) connection to the endpoint. */
bool pg_content_allows(const struct pg_environment *environment, const struct pg_endpoint *remote);

/* Whether a phase's list has the address now: static, or learned and not expired. */
bool pg_content_has_address(const struct pg_environment *environment, const struct pg_addr *addr);

/* own_addresses.c */
int pg_own_addresses_start(struct pg_environment *environment, struct pg_error *err) PG_MUST_CHECK;
void pg_own_addresses_stop(struct pg_environment *environment);

/* self_probe.c: from inside the cgroup */
int pg_self_probe_denied(const struct pg_environment *environment,
			 struct pg_error *err) PG_MUST_CHECK;
int pg_self_probe_in_force(const struct pg_environment *environment,
			   struct pg_error *err) PG_MUST_CHECK;

/* spawn.c: a child of this process in the cgroup; runs function and exits with its result. */
int pg_spawn_function(int cgroup_fd, int (*function)(void *userdata), void *userdata,
		      pid_t *ret_pid, struct pg_error *err) PG_MUST_CHECK;

/* orphan.c */
int pg_orphans_end(struct pg_host *host, int records_fd, struct pg_error *err) PG_MUST_CHECK;
/* Ends the tree and removes pins, cgroup and record; links of this process must be closed. */
int pg_remains_remove(struct pg_host *host, int records_fd, const struct pg_record *record,
		      struct pg_error *err) PG_MUST_CHECK;
