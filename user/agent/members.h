/* SPDX-License-Identifier: Apache-2.0 */
/* Members in a request to create -> cgroups, and whether the caller may have them. */
#pragma once

#include "json/json.h"
#include "request.h"

#include <phasegate/abi/member.h>

struct pg_member_list {
	char *paths[PG_MEMBERS_MAX]; /* owned */
	size_t count;
	bool attach;   /* in: asked for; out: also because a member is one that runs */
	char *sources; /* as struct pg_note has it; owned */
};

/* -EINVAL or -ENOMEM: the error is in reply. array NULL: none, so one is to be made. */
int pg_members_resolve(struct pg_agent *agent, const struct pg_request *request,
		       const struct pg_json *json, const struct pg_json_value *array,
		       struct pg_member_list *list, struct pg_reply *reply) PG_MUST_CHECK;
void pg_member_list_clear(struct pg_member_list *list);
#define pg_automemberlist PG_CLEANUP(pg_member_list_clear)

/*
 * Whether the cgroup (an absolute path below the mount of cgroup2) may become a member for the
 * caller. -EINVAL: the error, about object, is in reply.
 */
int pg_member_check(struct pg_agent *agent, const struct pg_request *request, const char *path,
		    bool attach, const char *object, struct pg_reply *reply) PG_MUST_CHECK;

/* The cgroup of a process that all other processes there belong to. */
int pg_member_of_pid(struct pg_agent *agent, const struct pg_request *request, pid_t pid,
		     const char *object, char **ret_path, struct pg_reply *reply) PG_MUST_CHECK;
