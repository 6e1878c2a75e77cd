/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members in a request to create -> cgroups, and whether the caller may have them. Runtimes may let
 * wait for their answers: then this is done in a thread (work.h), for which *agent is as it is
 * there.
 */
#pragma once

#include "container/container.h"
#include "inspect/exposure.h"
#include "json/json.h"
#include "request.h"

#include <phasegate/abi/member.h>

struct pg_member_container;

/* Who else runs in a runtime of which there is a member. */
struct pg_surroundings {
	bool asked;
	struct pg_error err; /* .number: why they are not known */
	struct pg_neighbours neighbours;
};

struct pg_member_list {
	char *paths[PG_MEMBERS_MAX]; /* owned */
	/* What is known of members that are containers, NULL for others; owned. */
	struct pg_member_container *containers[PG_MEMBERS_MAX];
	size_t count;
	struct pg_surroundings around[PG_RUNTIME_COUNT];
	uint64_t deadline;	      /* until when runtimes may be asked, CLOCK_MONOTONIC ns */
	const atomic_bool *cancelled; /* as struct pg_runtimes has it */
	bool attach;   /* in: asked for; out: also because a member is one that runs */
	char *sources; /* as struct pg_note has it; owned */
	struct pg_exposure_list exposures;
	uint64_t net_capabilities; /* PG_NET_CAPABILITIES that any of them may have */
	size_t net_member;	   /* the first one that does */
};

/* -EINVAL or -ENOMEM: the error is in reply. array NULL: none, so one is to be made. */
int pg_members_resolve(const struct pg_agent *agent, const struct pg_caller *caller,
		       const struct pg_json *json, const struct pg_json_value *array,
		       struct pg_member_list *list, struct pg_reply *reply) PG_MUST_CHECK;
/* Whether it has to ask a runtime. */
bool pg_members_ask(const struct pg_json_value *array);
void pg_member_list_clear(struct pg_member_list *list);
#define pg_automemberlist PG_CLEANUP(pg_member_list_clear)

/*
 * Whether the cgroup (an absolute path below the mount of cgroup2) may become a member for the
 * caller; vouched: it is known to be the caller's. -EINVAL: the error, about object, is in reply.
 */
int pg_member_check(const struct pg_agent *agent, const struct pg_caller *caller, const char *path,
		    bool attach, bool vouched, const char *object,
		    struct pg_reply *reply) PG_MUST_CHECK;

/* The cgroup of a process that all other processes there belong to. */
int pg_member_of_pid(const struct pg_agent *agent, const struct pg_caller *caller, pid_t pid,
		     const char *object, char **ret_path, struct pg_reply *reply) PG_MUST_CHECK;

/*
 * Whether no processes but those of the one that process names are in the cgroup: it or its
 * descendants, or in its pid namespace. named: the cgroup is named after its container, so that it
 * may have processes from elsewhere, too, if it shares the agent's pid namespace.
 */
int pg_member_check_alone(const struct pg_agent *agent, const struct pg_caller *process,
			  const char *path, bool named, const char *object,
			  struct pg_reply *reply) PG_MUST_CHECK;

/* Where to ask for containers. */
struct pg_runtimes pg_member_list_runtimes(const struct pg_agent *agent,
					   const struct pg_member_list *list);
