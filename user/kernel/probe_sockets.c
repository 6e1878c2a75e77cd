/* SPDX-License-Identifier: Apache-2.0 */
/* Listing and closing sockets. */
#include "kernel/probe_internal.h"

#include <errno.h>
#include <string.h>

#include "kernel/sockets_internal.h"

static void probe_protocol(struct pg_probe_report *report, int protocol, const char *name)
{
	PG_CLEANUP(pg_diag_close) struct pg_diag diag = PG_DIAG_CLOSED;
	int r = pg_diag_open(&diag, -1, NULL);

	if (r == 0)
		r = pg_diag_supported(&diag, protocol, NULL);
	if (r == 0) {
		pg_probe_found(report, "%s sockets can be listed and closed", name);
		return;
	}
	switch (r) {
	case -ENOENT:
		pg_probe_found(report, "no socket diag for %s", name);
		pg_probe_lacks(report, PG_PROBE_FAILED,
			       "`modprobe %s_diag`, or a kernel with CONFIG_INET%s_DIAG",
			       protocol == IPPROTO_TCP ? "tcp" : "udp",
			       protocol == IPPROTO_TCP ? "" : "_UDP");
		break;
	case -EOPNOTSUPP:
		pg_probe_found(report, "%s sockets can be listed but not closed", name);
		pg_probe_lacks(report, PG_PROBE_FAILED,
			       "use a kernel with CONFIG_INET_DIAG_DESTROY=y, such as a "
			       "distribution's");
		break;
	default:
		pg_probe_found(report, "socket diag for %s: %s", name, strerror(-r));
		pg_probe_lacks(report, PG_PROBE_FAILED,
			       "use a kernel with CONFIG_INET_DIAG and CONFIG_INET_DIAG_DESTROY");
	}
}

void pg_probe_tcp_diag(struct pg_probe_report *report)
{
	probe_protocol(report, IPPROTO_TCP, "TCP");
}

void pg_probe_udp_diag(struct pg_probe_report *report)
{
	probe_protocol(report, IPPROTO_UDP, "UDP");
}
