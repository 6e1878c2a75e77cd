/* SPDX-License-Identifier: Apache-2.0 */
/* exposures.h, of what is started in an Environment after its creation. */
#pragma once

#include "agent.h"

/* adopted: what is in it was there before this agent, and has been told of. */
void pg_exposures_watch(struct pg_managed *managed, bool adopted);
void pg_exposures_unwatch(struct pg_managed *managed);
/* Its members have been looked at as they are. */
void pg_exposures_seen(struct pg_managed *managed);
/* Looks at what is new; once a second. */
void pg_exposures_watch_all(struct pg_agent *agent);
