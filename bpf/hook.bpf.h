/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once

/* Values that a cgroup hook returns. */
#define PG_HOOK_DENY  0
#define PG_HOOK_ALLOW 1
/* Of egress: the packet goes nowhere, but sending it succeeds (unless the socket has IP_RECVERR,
 * see pg_setsockopt). */
#define PG_HOOK_TAKE  2
