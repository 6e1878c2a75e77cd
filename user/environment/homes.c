/* SPDX-License-Identifier: Apache-2.0 */
#include "homes.h"

#include "host_internal.h"

void pg_homes_look(struct pg_host *host)
{
	(void)host;
}
