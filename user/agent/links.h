/* SPDX-License-Identifier: Apache-2.0 */
/* The ways out of an Environment's network namespaces, as the API shows them. */
#pragma once

#include "agent.h"

/* The member "links" of an Environment. */
void pg_links_describe(const struct pg_environment *environment, struct pg_json_writer *json);

/* One that nothing guards: a warning of the creation that is under way, or else an event. */
void pg_links_report(struct pg_agent *agent, const struct pg_environment *environment,
		     const struct pg_link_view *link);
