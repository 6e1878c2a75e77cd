/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a policy opens the host's own addresses: the warning opens_host. */
#pragma once

#include "agent.h"

/* Warns of each address of this network namespace that an entry of an allowlist covers, once. */
void pg_opens_host_warn(struct pg_agent *agent, const struct pg_policy *policy);
