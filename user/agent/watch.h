/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members that were given and whose cgroup is made anew, as by the restart of a container: they are
 * confined again at once, and it is told. What they did in between was not judged.
 */
#pragma once

#include "agent.h"

struct pg_watch;

/* Looks now, then whenever something is made beside a member, and once a second. -ENOMEM and others
 * of sd-event. */
int pg_watch_start(struct pg_agent *agent, struct pg_watch **ret_watch,
		   struct pg_error *err) PG_MUST_CHECK;
void pg_watch_stop(struct pg_watch *watch);

/* Looks at one Environment now. A negative errno: a member of it is not confined. */
int pg_watch_look(struct pg_agent *agent, struct pg_managed *managed,
		  struct pg_error *err) PG_MUST_CHECK;
