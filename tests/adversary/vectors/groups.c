/* SPDX-License-Identifier: Apache-2.0 */
/* What reaches many at once, and what tells routers of it. */
#include "../adversary.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

VECTOR(multicast)
{
	int fd = open_socket(&attempt->target, SOCK_DGRAM, 0);

	if (is_v6(&attempt->group))
		set_option(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, index_of(DEVICE));
	return send_token(fd, attempt, &attempt->group);
}

/* Of all networks, and of this one. */
VECTOR(broadcast)
{
	union any to = attempt->target;
	int fd = open_socket(&to, SOCK_DGRAM, 0), result;

	set_option(fd, SOL_SOCKET, SO_BROADCAST, 1);
	setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, DEVICE, sizeof(DEVICE));
	to.in.sin_addr.s_addr = INADDR_BROADCAST;
	result = send_token(fd, attempt, &to);
	to.in.sin_addr.s_addr = attempt->own.in.sin_addr.s_addr | htonl(0xffff);
	return send_token(fd, attempt, &to) ?: result;
}

VECTOR(subnet_anycast)
{
	union any to = attempt->own;

	memset(to.in6.sin6_addr.s6_addr + 8, 0, 8);
	return send_token(open_socket(&to, SOCK_DGRAM, 0), attempt, &to);
}

/* Anybody may join any group: the report that the kernel sends has its address, octets of the
 * workload's choice. */
VECTOR(group_join)
{
	int fd = open_socket(&attempt->target, SOCK_DGRAM, 0);
	struct ip_mreqn four = {.imr_multiaddr = attempt->group.in.sin_addr,
				.imr_ifindex = index_of(DEVICE)};
	struct ipv6_mreq six = {.ipv6mr_multiaddr = attempt->group.in6.sin6_addr,
				.ipv6mr_interface = (unsigned)index_of(DEVICE)};

	if (is_v6(&attempt->group))
		return sent(setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &six, sizeof(six)));
	return sent(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &four, sizeof(four)));
}

/* Sources of a group are in the reports, too. */
VECTOR(group_source_join)
{
	struct group_source_req request = {.gsr_interface = (uint32_t)index_of(DEVICE)};
	int fd = open_socket(&attempt->target, SOCK_DGRAM, 0);

	memcpy(&request.gsr_group, &attempt->group, size_of(&attempt->group));
	memcpy(&request.gsr_source, &attempt->target, size_of(&attempt->target));
	return sent(setsockopt(fd, is_v6(&attempt->target) ? IPPROTO_IPV6 : IPPROTO_IP,
			       MCAST_JOIN_SOURCE_GROUP, &request, sizeof(request)));
}

/* An address of the container's own network. */
VECTOR(onlink_udp)
{
	return send_token(open_socket(&attempt->onlink, SOCK_DGRAM, 0), attempt, &attempt->onlink);
}
