/* SPDX-License-Identifier: Apache-2.0 */
/* In the place of link.c until that is there: nothing is guarded. */
#include "link.h"

#include <errno.h>

#define PG_WEAK __attribute__((weak))

PG_WEAK int pg_link_write(struct pg_kernel *kernel, unsigned int ifindex,
			  const struct pg_header *header, uint32_t flags, struct pg_error *err)
{
	return 0;
}

PG_WEAK int pg_link_read(struct pg_kernel *kernel, unsigned int ifindex, struct pg_link *ret_link,
			 struct pg_error *err)
{
	return -ENOENT;
}

PG_WEAK void pg_link_forget(struct pg_kernel *kernel, unsigned int ifindex)
{
}

PG_WEAK bool pg_link_next(struct pg_kernel *kernel, unsigned int *ifindex)
{
	return false;
}

PG_WEAK int pg_link_attach(struct pg_kernel *kernel, unsigned int ifindex, struct pg_error *err)
{
	return 0;
}

PG_WEAK int pg_link_detach(unsigned int ifindex, struct pg_error *err)
{
	return 0;
}

PG_WEAK int pg_link_attached(struct pg_kernel *kernel, unsigned int ifindex, struct pg_error *err)
{
	return 0;
}
