/* SPDX-License-Identifier: Apache-2.0 */
/* Queries and replies in datagrams. */
#include "dns/listener_internal.h"

#include <errno.h>
#include <string.h>

/*
 * Whether the datagram came in by lo. From outside one can come to 127/8 where route_localnet is
 * set. The socket itself is not bound to lo since BPF programs look for it without a device.
 */
static bool came_by_lo(struct msghdr *header)
{
	for (struct cmsghdr *control = CMSG_FIRSTHDR(header); control;
	     control = CMSG_NXTHDR(header, control)) {
		if (control->cmsg_level == IPPROTO_IP && control->cmsg_type == IP_PKTINFO) {
			struct in_pktinfo info;

			memcpy(&info, CMSG_DATA(control), sizeof(info));
			return info.ipi_ifindex == PG_LISTENER_LO;
		}
		if (control->cmsg_level == IPPROTO_IPV6 && control->cmsg_type == IPV6_PKTINFO) {
			struct in6_pktinfo info;

			memcpy(&info, CMSG_DATA(control), sizeof(info));
			return info.ipi6_ifindex == PG_LISTENER_LO;
		}
	}
	return false;
}

static void prepare_headers(struct pg_listener *listener)
{
	for (unsigned int i = 0; i < PG_LISTENER_SHARE; i++) {
		struct pg_listener_datagram *datagram = &listener->datagrams[i];

		datagram->data = (struct iovec){datagram->message, sizeof(datagram->message)};
		listener->headers[i].msg_hdr = (struct msghdr){
			.msg_name = &datagram->peer.addr,
			.msg_namelen = sizeof(datagram->peer.addr),
			.msg_iov = &datagram->data,
			.msg_iovlen = 1,
			.msg_control = datagram->control,
			.msg_controllen = sizeof(datagram->control),
		};
	}
}

unsigned int pg_listener_udp_event(struct pg_listener *listener, enum pg_listener_source source)
{
	int count;

	prepare_headers(listener);
	count = recvmmsg(listener->sockets[source], listener->headers, PG_LISTENER_SHARE,
			 MSG_DONTWAIT, NULL);
	if (count < 0) {
		if (errno == ECONNABORTED)
			pg_listener_lose(listener, source);
		return 0;
	}
	for (int i = 0; i < count; i++) {
		struct pg_listener_datagram *datagram = &listener->datagrams[i];
		struct msghdr *header = &listener->headers[i].msg_hdr;

		if (!came_by_lo(header))
			continue;
		datagram->peer.connection = 0;
		datagram->peer.addr_size = header->msg_namelen;
		listener->options.query(listener->options.userdata, listener, &datagram->peer,
					false, datagram->message, listener->headers[i].msg_len);
	}
	return (unsigned int)count;
}

void pg_listener_udp_send(struct pg_listener *listener, const struct pg_peer *peer,
			  const uint8_t *message, size_t size)
{
	enum pg_listener_source source =
		peer->addr.any.sa_family == AF_INET6 ? PG_LISTENER_UDP6 : PG_LISTENER_UDP4;

	if (listener->sockets[source] < 0)
		return;
	/* Whoever sends may be the one that is told of the end of the socket. */
	if (sendto(listener->sockets[source], message, size, MSG_DONTWAIT | MSG_NOSIGNAL,
		   &peer->addr.any, peer->addr_size) < 0 &&
	    errno == ECONNABORTED)
		pg_listener_lose(listener, source);
}
