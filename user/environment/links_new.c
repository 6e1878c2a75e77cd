/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links without a guard: nobody's, or somebody's that is not known yet, since a runtime makes a
 * link before it joins a namespace with it, and may make a namespace before anybody is in it. While
 * there are Environments no member's packet socket gets a frame out by one. What a killed process
 * leaves of that the next one puts its own in the place of.
 */
#include "links.h"

#include <errno.h>

#include "kernel/link.h"

/* It may have gone meanwhile; what else fails is told once. */
void pg_veth_hold(struct pg_link_watch *watch, struct pg_veth *veth)
{
	struct pg_host *host = watch->host;
	struct pg_error err = {};

	if (!watch->holding || veth->held)
		return;
	veth->held = !pg_link_new_attach(host->kernel, veth->ifindex, &err);
	if (veth->held || watch->hold_failed || err.number == -ENODEV)
		return;
	watch->hold_failed = true;
	pg_error_prefix(&err, "the interface %s (others are not reported)", veth->name);
	pg_host_warn(host, "link", err.text);
}

/* It has a guard. */
void pg_veth_let_go(const struct pg_link_watch *watch, struct pg_veth *veth)
{
	if (veth->held)
		(void)pg_link_new_detach(watch->host->kernel, veth->ifindex);
	veth->held = false;
}

/* Environments that end with their process are not held: their commands have no packet sockets. */
void pg_links_hold(struct pg_host *host)
{
	struct pg_link_watch *watch = host->links;
	struct pg_veth *veth;

	if (watch->holding || !host->pins)
		return;
	watch->holding = true;
	PG_VETH_FOREACH (watch, i, veth)
		if (!veth->owner)
			pg_veth_hold(watch, veth);
}

void pg_links_unhold(struct pg_link_watch *watch)
{
	const struct pg_host *host = watch->host;
	/* A process that was killed may have held them when its last Environment had ended. */
	const bool killed = pg_kernel_has_adopted(host->kernel);
	struct pg_veth *veth;

	if ((!watch->holding && !killed) || host->in_use || !LIST_EMPTY(&host->kept))
		return;
	PG_VETH_FOREACH (watch, i, veth) {
		if ((!veth->held && !killed) || !pg_link_new_detach(host->kernel, veth->ifindex))
			continue;
		veth->held = false;
		/* Another process's guard may be on it. */
		(void)!pg_link_queue_remove(veth->ifindex, NULL);
	}
}
