/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * DNS in the path: what connect and sendmsg hooks leave for the hooks that come after them, and how
 * Phasegate's listener is known. An Environment has one listener endpoint for each family
 * (pg_header.listener), the same in every network namespace of it; user space opens sockets there.
 */
#pragma once

#include "types.h"

/*
 * Value of the socket storage pg_dns_sockets, on sockets of the Environment that asked a
 * nameserver: what recvmsg and getpeername show instead of the listener.
 */
struct pg_dns_socket {
	struct pg_endpoint server; /* the nameserver that was asked last */
	__u64 netns;		   /* cookie of the socket's namespace */
	/* 1: nobody listened in the namespace when it was asked, and nobody had before. What is
	 * sent is parked: user space is told and will listen (PG_EVENT_PARKED). */
	__u32 unserved;
	__u32 reserved;
};
PG_ASSERT_SIZE(struct pg_dns_socket, 40);

/*
 * Value of the socket storage pg_dns_listeners, which user space sets on each socket that it
 * listens with and which accepted sockets inherit: whose listener it is. Of the sockets in a
 * namespace the one for UDP over IPv4 speaks for all, so it is bound last.
 */
struct pg_dns_listener {
	__u64 env_id;
};
PG_ASSERT_SIZE(struct pg_dns_listener, 8);

/*
 * The socket mark (SO_MARK) of Phasegate's sockets that no Environment may reach: those that ask
 * nameservers, and all listeners, which accepted sockets inherit too. A process knows by their
 * storage those of its own Environments; those of another process are known by this alone. Its bits
 * are in no mask of firewall marks that is in common use.
 */
#define PG_HIDDEN_MARK 0x3047

/*
 * Key of pg_dns_served: there is a listener in this namespace of the Environment. User space enters
 * it, and the hooks do when they see one, since user space cannot tell the cookie before
 * Linux 5.14. If none is there any more, user space has died: asking fails at once (ECONNREFUSED)
 * and is not parked.
 */
struct pg_dns_served_key {
	__u64 env_id;
	__u64 netns; /* cookie */
};
PG_ASSERT_SIZE(struct pg_dns_served_key, 16);
