/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What members have that no policy can hold (user/inspect): whether an Environment is made even so,
 * by the operator's settings and what the request accepts, and what is shown of it.
 *
 *   exposures.c         judging, warning, showing
 *   exposures_find.c    looking at members
 *   exposures_watch.c   at what is started in them later
 *   exposures_exec.c    what is ended then
 */
#pragma once

#include "agent.h"
#include "inspect/inspect.h"
#include "members.h"

/* A set of kinds, one bit each. */
#define PG_EXPOSURE_BIT(id) (1ULL << (id))

/* exposures_find.c: may be called in a thread, as pg_members_resolve(). */
void pg_exposures_find(const struct pg_agent *agent, struct pg_member_list *list);
/* At all processes of a cgroup and below it. */
void pg_exposures_look(int cgroup_fd, struct pg_inspection *inspection);
/* At the links of the Environment that has been made of them. */
void pg_exposures_find_links(const struct pg_environment *environment, struct pg_member_list *list);
/* Places of the host that a mount must not give. The caller clears them. */
int pg_exposures_places(const struct pg_agent *agent,
			struct pg_host_places *ret_places) PG_MUST_CHECK;

/* -EINVAL: there is one that is refused; the error is in reply. accepted: of the request. */
int pg_exposures_judge(const struct pg_agent *agent, const struct pg_exposure_list *list,
		       uint64_t accepted, struct pg_reply *reply) PG_MUST_CHECK;
void pg_exposures_warn(struct pg_agent *agent, const struct pg_exposure_list *list,
		       uint64_t accepted);
/* Of what a request names and none may accept. */
void pg_exposures_warn_accepted(struct pg_agent *agent, uint64_t accepted);
/* What the Environment shows from now on, besides what it did. */
void pg_exposures_keep(struct pg_managed *managed, const struct pg_exposure_list *list);
/* Kinds that are let be for as long as the Environment exists: found when it was made, or accepted
 * by the request where it may. */
uint64_t pg_exposures_let(const struct pg_config *config, const struct pg_exposure_list *found,
			  uint64_t accepted);
/* For pg_environment_options.refused_rights. */
uint64_t pg_exposures_refused_rights(const struct pg_config *config, uint64_t let);
/* The kernel has ended it. */
void pg_exposures_executed(struct pg_agent *agent, const struct pg_environment *environment,
			   const struct pg_event_exec *executed);
/* Elements of a JSON array, which the caller frees; -ENOMEM. */
int pg_exposures_print(const struct pg_exposure_list *list, char **ret_elements) PG_MUST_CHECK;
/* The operator's levels, as members of an object. */
void pg_exposures_describe(const struct pg_config *config, struct pg_json_writer *json);

/* A set of kinds in a request, an array of ids. -EINVAL: the error is in reply. */
int pg_exposures_read(const struct pg_json_value *array, uint64_t *ret_accepted,
		      struct pg_reply *reply) PG_MUST_CHECK;
