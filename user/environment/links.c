/* SPDX-License-Identifier: Apache-2.0 */
#include "homes.h"

int pg_links_guard(struct pg_home *home, struct pg_error *err)
{
	(void)home;
	(void)err;
	return 0;
}

void pg_links_release(struct pg_home *home, bool keep)
{
	(void)home;
	(void)keep;
}
