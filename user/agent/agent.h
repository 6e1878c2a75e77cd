/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host agent: one loop (sd-event) that serves the API and drives the host object.
 *
 *   agent.c      start, loop, end
 *   server.c     HTTP over the Unix socket; who may connect, limits
 *   routes.c     the table of routes; api_*.c has the handlers, one file a resource
 *   managed.h    Environments and what the agent remembers of them
 *   phases.c     switches, survivors, leases
 *   passed.c     sockets that outlive the agent
 *   work.c       threads for what would keep the loop waiting
 *   events.c     the ring of events
 *   verify.c     tries from inside of an Environment
 *   watch.c      members whose cgroup is made anew
 *   exposures.h  what members have that no policy can hold
 */
#pragma once

#include <systemd/sd-event.h>

#include "config.h"
#include "events.h"
#include "managed.h"
#include "reply.h"
#include "passed.h"
#include "work.h"

struct pg_server;
struct pg_verification;
struct pg_watch;

/* Warnings of one operation that are told to its caller. */
#define PG_AGENT_WARNINGS_MAX 64

struct pg_agent {
	const struct pg_config *config;
	sd_event *loop;
	sd_event_source *host_source, *lease_source;
	struct pg_host *host;
	struct pg_server *server;
	struct pg_events events;
	struct pg_managed_list environments;
	struct pg_works works;
	struct pg_passed passed;
	struct pg_watch *watch;
	LIST_HEAD(pg_verification_list, pg_verification) verifications; /* verify.h */
	size_t environment_count;
	size_t exposures_from; /* whose turn it is (exposures_watch.h) */
	/* While an operation collects warnings for its reply; they are logged as well. */
	struct pg_json_writer warnings;
	size_t warning_count;
	const char *operating_on;	    /* NULL: none does */
	const struct pg_environment *quiet; /* its denials are not events */
	bool stopping;
};

/* Runs until SIGTERM or SIGINT. The caller has read the settings. */
int pg_agent_run(const struct pg_config *config, struct pg_error *err) PG_MUST_CHECK;

struct pg_managed *pg_agent_find(const struct pg_agent *agent, const char *name);

/* api_environments.c: an Environment that is destroyed was waited for; a pg_ended of the host. */
void pg_agent_ended(struct pg_agent *agent, const struct pg_environment *environment,
		    const struct pg_error *fault);

/* A warning, of the operation at hand if there is one, as the host object gives them. */
void pg_agent_warn(struct pg_agent *agent, const char *code, const char *message);
/* From now on warnings are those of an operation on the Environment of this name. -ENOMEM */
int pg_agent_collect_warnings(struct pg_agent *agent, const char *name) PG_MUST_CHECK;
/* Ends that. *ret_elements, which the caller frees, are of a JSON array; NULL: no memory. */
void pg_agent_take_warnings(struct pg_agent *agent, char **ret_elements);

/* An event about an Environment; the caller adds members, then closes it. false: no memory. */
bool pg_agent_open_event(struct pg_agent *agent, struct pg_json_writer *json, const char *kind,
			 const char *name);
void pg_agent_close_event(struct pg_agent *agent, struct pg_json_writer *json, uid_t owner,
			  const char *name);
