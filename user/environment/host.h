/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This process as an enforcer: the loaded programs and the Environments that it has made. One
 * descriptor drives everything that happens in the background: events, names, own addresses, aging
 * of flows. Not thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "dns/resolver.h"
#include "kernel/kernel.h"
#include "net/prefix.h"
#include "record.h"

struct pg_host;
struct pg_environment;

/* Receives what does not stop the operation but should be known, such as a name without address. */
typedef void (*pg_warning)(void *userdata, const char *code, const char *message);

/* Receives denials (PG_EVENT_DENIED) of Environments that asked for them, in pg_host_process(). */
typedef void (*pg_denied)(void *userdata, struct pg_environment *environment,
			  const struct pg_event *event);

/* Receives names that the Environment asked for in vain, if it asked for its denials. At most
 * PG_REFUSALS_PER_S of each; the others are counted. */
typedef void (*pg_refused)(void *userdata, struct pg_environment *environment, const char *name,
			   enum pg_refusal refusal);
/* A person reads them; a flood would push out the events of others. */
#define PG_REFUSALS_PER_S 100

/* Receives addresses that are not taken for an Environment's own (homes.h); of each Environment the
 * first ones only. */
typedef void (*pg_address_refused)(void *userdata, struct pg_environment *environment,
				   const struct pg_addr *addr, const char *message);

/* Receives ways out of a member's namespace that no veth guard is on: when the Environment is made,
 * and as they appear; not that of the host's own namespace. */
struct pg_link_view;
typedef void (*pg_unguarded_link)(void *userdata, struct pg_environment *environment,
				  const struct pg_link_view *link);

/* Receives, some time after, how many new UDP flows of the Environment found no room (abi/flow.h):
 * its own flood, or somebody's outside. */
typedef void (*pg_crowded)(void *userdata, struct pg_environment *environment, uint64_t refused);

/* Receives what the kernel has ended since it was executed with rights that are refused. */
typedef void (*pg_executed)(void *userdata, struct pg_environment *environment,
			    const struct pg_event_exec *executed);

/* Receives, in pg_host_process(), the end of one that was waited for: pg_environment_destroy() has
 * returned -EINPROGRESS. fault: it was too long, and is waited for no longer; NULL: nothing is left
 * of it but the object, which goes. */
typedef void (*pg_ended)(void *userdata, struct pg_environment *environment,
			 const struct pg_error *fault);

/* Where an agent pins, as a rule. */
#define PG_PINS_DEFAULT PG_PIN_ROOT "/+agent"

/*
 * Where copies of sockets outlive this process, by names that begin with PG_STORE_NAME. Keeping one
 * under its name again changes nothing.
 */
struct pg_socket_store {
	void (*keep)(void *userdata, const char *name, int fd);
	/* What an earlier process has kept, which is the caller's then; -1: nothing. */
	int (*take)(void *userdata, const char *name);
	void (*drop)(void *userdata, const char *name);
};
#define PG_STORE_NAME	  "dns-"
#define PG_STORE_NAME_MAX 128

struct pg_host_options {
	pg_warning warning;		     /* may be NULL */
	pg_denied denied;		     /* may be NULL */
	pg_refused refused;		     /* may be NULL */
	pg_unguarded_link unguarded;	     /* may be NULL */
	pg_address_refused address_refused;  /* NULL: a warning */
	pg_crowded crowded;		     /* may be NULL */
	pg_executed executed;		     /* may be NULL */
	pg_ended ended;			     /* NULL: pg_environment_destroy() waits itself */
	const struct pg_socket_store *store; /* may be NULL */
	void *userdata;			     /* of all of them */
	/* When it is readable, waits of pg_host_open(), of pg_environment_create(), _update() and
	 * _spawn() end with -ECANCELED. It stays the caller's. -1: none. */
	int interrupt_fd;
	/* How long creating and updating wait for the names of a policy, while nothing else is
	 * done; after that they are resolved in the background. 0: PG_RESOLVER_LOAD_MS. */
	int names_wait_ms;
	/*
	 * A directory on a BPF file system, made if it is missing, for what outlives this process:
	 * every Environment is kept then, which means that nothing of it ends with its owner, and
	 * that the next process with the same directory adopts it. NULL: Environments end with
	 * this process.
	 */
	const char *pins;
	/*
	 * The cgroup at the top of the hierarchy in which Environments' own cgroups are made. NULL:
	 * "phasegate". With .pins it is guarded: whatever is in it without an Environment is denied
	 * everything.
	 */
	const char *parent;
	/* What is denied in every phase of every Environment, public ones too; of IPv4 also the
	 * IPv6 forms (pg_prefix_forms()). Copied. */
	const struct pg_prefix *never_allow;
	size_t never_allow_count;
	/*
	 * Outside public, entries and names open only these ports (host order) of the addresses of
	 * the caller's network namespace. NULL: all ports. Copied.
	 */
	const uint16_t *host_ports;
	size_t host_port_count;
	/* Loads the veth guard's programs now and not with the first veth, which would have to
	 * wait for that. */
	bool links;
};

/*
 * Checks that enforcement is possible, loads the programs, and ends what processes killed before
 * this one have left behind, unless it is kept: their trees are killed, their cgroups and pins
 * removed. What cannot be removed stays confined and gives a warning. Refuses to work from inside
 * of an Environment (-EBUSY): what it starts would be in another cgroup, so it would get out.
 *
 * With .pins: completes or undoes what a killed owner had half done, and removes kept Environments
 * whose cgroups are gone; the others are adopted by pg_environment_adopt(). -EBUSY if another
 * process works with the directory, -EPROTO if it or a record is of a version that cannot be
 * adopted; then nothing has been changed.
 */
int pg_host_open(const struct pg_host_options *options, struct pg_host **ret_host,
		 struct pg_error *err) PG_MUST_CHECK;

/* Whether it can be .pins, as far as its file system tells; it may be missing. */
int pg_host_check_pins(const char *pins, struct pg_error *err) PG_MUST_CHECK;

/*
 * Names of kept Environments that nobody has adopted yet. The caller frees *ret_names, which is one
 * block.
 */
int pg_host_kept(const struct pg_host *host, char ***ret_names, size_t *ret_count,
		 struct pg_error *err) PG_MUST_CHECK;

/*
 * From now on what is executed with refused rights (pg_environment_options) is ended; with .pins
 * also when this process has gone. Takes some tenths of a second; if the kernel does not let
 * programs see what is executed, there is the warning "exec_watch".
 */
void pg_host_watch_exec(struct pg_host *host);
bool pg_host_watches_exec(const struct pg_host *host);

/* All Environments must have been destroyed or left. With no kept ones, the pins go too. */
void pg_host_free(struct pg_host *host);
static inline void pg_host_freep(struct pg_host **host)
{
	pg_host_free(*host);
}

/* Readable whenever pg_host_process() has something to do. */
int pg_host_fd(const struct pg_host *host);
int pg_host_process(struct pg_host *host, struct pg_error *err) PG_MUST_CHECK;

/* -EBUSY if the cgroup is an Environment's, of whatever host, or below one. */
int pg_host_refuse_inside(const struct pg_host *host, const char *cgroup,
			  struct pg_error *err) PG_MUST_CHECK;

struct pg_kernel *pg_host_kernel(const struct pg_host *host);
/* The cgroup2 mount point. */
const char *pg_host_cgroup_mount(const struct pg_host *host);
