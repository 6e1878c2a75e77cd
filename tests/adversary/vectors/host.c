/* SPDX-License-Identifier: Apache-2.0 */
/* The host's network, known by the number that the kernel gives it at the container's veth: who has
 * CAP_NET_ADMIN in the host's user namespace may make devices there. */
#include "../adversary.h"

#include <errno.h>
#include <net/ethernet.h>

#define INDEX_MAX 64

/* Inside, on every device of the host's that takes one. */
VECTOR(host_macvlan)
{
	int result = -ENODEV;

	for (int i = 2; i < INDEX_MAX; i++) {
		if (shell("ip link add pgx link if%d link-netnsid 0 type macvlan mode private", i))
			continue;
		if (!shell("ip link set pgx up") && !frame_by("pgx", attempt))
			result = 0;
		shell("ip link del pgx");
	}
	return result;
}

/* Inside, and what is around its packets is sent from the host. */
VECTOR(host_vxlan)
{
	int result = shell("ip link add pgx link-netnsid 0 type vxlan id 7 remote %s dstport %d; "
			   "ip link set pgx up",
			   text_of(&attempt->target), PORT);

	result = result ?: frame_by("pgx", attempt);
	shell("ip link del pgx");
	return result;
}
