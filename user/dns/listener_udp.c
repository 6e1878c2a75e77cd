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

/* The reply would go to nobody else's address. */
static bool is_loopback(const struct pg_peer *peer)
{
	if (peer->addr.any.sa_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&peer->addr.in6.sin6_addr);
	return ntohl(peer->addr.in4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
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

		if (!came_by_lo(header) || !is_loopback(&datagram->peer))
			continue;
		datagram->peer.connection = 0;
		datagram->peer.addr_size = header->msg_namelen;
		listener->options.query(listener->options.userdata, listener, &datagram->peer,
					false, datagram->message, listener->headers[i].msg_len);
	}
	return (unsigned int)count;
}

/* From the listener's address, and to no other device than lo. */
static void put_packet_info(struct msghdr *header, const struct pg_endpoint *endpoint, bool ipv6)
{
	struct cmsghdr *control = header->msg_control;

	if (ipv6) {
		struct in6_pktinfo info = {.ipi6_ifindex = PG_LISTENER_LO};

		memcpy(&info.ipi6_addr, endpoint->addr.word, sizeof(info.ipi6_addr));
		control->cmsg_level = IPPROTO_IPV6;
		control->cmsg_type = IPV6_PKTINFO;
		control->cmsg_len = CMSG_LEN(sizeof(info));
		header->msg_controllen = CMSG_SPACE(sizeof(info));
		memcpy(CMSG_DATA(control), &info, sizeof(info));
	} else {
		struct in_pktinfo info = {
			.ipi_ifindex = PG_LISTENER_LO,
			.ipi_spec_dst.s_addr = pg_addr_to_v4(&endpoint->addr),
		};

		control->cmsg_level = IPPROTO_IP;
		control->cmsg_type = IP_PKTINFO;
		control->cmsg_len = CMSG_LEN(sizeof(info));
		header->msg_controllen = CMSG_SPACE(sizeof(info));
		memcpy(CMSG_DATA(control), &info, sizeof(info));
	}
}

void pg_listener_udp_send(struct pg_listener *listener, const struct pg_peer *peer,
			  const uint8_t *message, size_t size)
{
	const bool ipv6 = peer->addr.any.sa_family == AF_INET6;
	const enum pg_listener_source source = ipv6 ? PG_LISTENER_UDP6 : PG_LISTENER_UDP4;
	_Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(struct in6_pktinfo))] = {0};
	struct sockaddr_storage to = {0};
	struct iovec data = {(void *)message, size};
	struct msghdr header = {
		.msg_name = &to,
		.msg_namelen = peer->addr_size,
		.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = control,
	};

	if (listener->sockets[source] < 0)
		return;
	memcpy(&to, &peer->addr, sizeof(peer->addr));
	put_packet_info(&header, &listener->options.endpoints[ipv6], ipv6);
	/* Whoever sends may be the one that is told of the end of the socket. */
	if (sendmsg(listener->sockets[source], &header, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 &&
	    errno == ECONNABORTED)
		pg_listener_lose(listener, source);
}
