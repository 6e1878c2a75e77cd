/* SPDX-License-Identifier: Apache-2.0 */
/* The other end of a guarded veth, in the home: what lets nothing come past the guard. */
#include "links.h"

#include <errno.h>

#include "base/netns.h"
#include "kernel/link.h"

int pg_veth_close_inner(const struct pg_home *home, struct pg_veth *veth, const struct pg_who *who,
			struct pg_error *err)
{
	pg_autoclose int fd = -1;
	int error;

	/* While nobody is there nobody sends; who comes is looked at. */
	if (veth->inner || !who->pid)
		return 0;
	fd = pg_netns_open(who->pid, home->inode);
	if (fd < 0)
		return 0;
	error = pg_link_inner_attach(home->environment->host->kernel, fd, veth->peer, err);
	if (error == -ENODEV)
		return 0; /* it has gone elsewhere meanwhile, and is told of again */
	veth->passable = error == -EOPNOTSUPP;
	veth->inner = !error || veth->passable;
	return veth->inner ? 0 : error;
}

void pg_veth_open_inner(const struct pg_link_watch *watch, struct pg_veth *veth)
{
	if (!veth->inner)
		return;
	veth->inner = false;
	/* Where nobody is known to be it goes with the namespace. */
	for (size_t i = 0; i < watch->process_count; i++) {
		pg_autoclose int fd = -1;

		if (watch->processes[i].inode == veth->inode)
			fd = pg_netns_open(watch->processes[i].pid, veth->inode);
		if (fd < 0)
			continue;
		pg_link_inner_detach(fd, veth->peer);
		return;
	}
}
