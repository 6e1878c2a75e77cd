/* SPDX-License-Identifier: Apache-2.0 */
#include "device.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <libmnl/libmnl.h>

#include "base/netns.h"

#define REPLY_BYTES 4096

/* "lo" has this index in every network namespace. */
#define LOOPBACK_IFINDEX 1

struct way {
	int ifindex;
	bool is_default, by_router, to_many;
};

static int take_device(const struct nlattr *attribute, void *data)
{
	struct way *way = data;

	switch (mnl_attr_get_type(attribute)) {
	case RTA_OIF:
		way->ifindex = (int)mnl_attr_get_u32(attribute);
		break;
	case RTA_GATEWAY:
	case RTA_VIA:
	case RTA_MULTIPATH:
		way->by_router = true;
		break;
	}
	return MNL_CB_OK;
}

static int take_route(const struct nlmsghdr *message, void *data)
{
	const struct rtmsg *route = mnl_nlmsg_get_payload(message);
	struct way *way = data;

	if (message->nlmsg_type != RTM_NEWROUTE)
		return MNL_CB_OK;
	way->is_default = route->rtm_dst_len == 0;
	way->to_many = route->rtm_type != RTN_UNICAST && route->rtm_type != RTN_LOCAL;
	return mnl_attr_parse(message, sizeof(*route), take_device, data);
}

/* The kernel answers within the send call. flags: RTM_F_FIB_MATCH to be told of the route, and not
 * of what came of it; then there may be no device. */
static int ask(const struct mnl_socket *socket, const struct pg_addr *addr, unsigned int flags,
	       struct way *ret_way)
{
	char reply[REPLY_BYTES];
	struct nlmsghdr *message = mnl_nlmsg_put_header(reply);
	struct rtmsg *route = mnl_nlmsg_put_extra_header(message, sizeof(*route));
	ssize_t got;

	message->nlmsg_type = RTM_GETROUTE;
	message->nlmsg_flags = NLM_F_REQUEST;
	route->rtm_flags = flags;
	*ret_way = (struct way){};
	if (pg_addr_is_v4(addr)) {
		route->rtm_family = AF_INET;
		route->rtm_dst_len = 32;
		mnl_attr_put_u32(message, RTA_DST, pg_addr_to_v4(addr));
	} else {
		route->rtm_family = AF_INET6;
		route->rtm_dst_len = 128;
		mnl_attr_put(message, RTA_DST, sizeof(addr->word), addr->word);
	}
	if (mnl_socket_sendto(socket, message, message->nlmsg_len) < 0)
		return -errno;
	got = mnl_socket_recvfrom(socket, reply, sizeof(reply));
	if (got < 0 || mnl_cb_run(reply, (size_t)got, 0, 0, take_route, ret_way) < 0)
		return -errno;
	return flags || ret_way->ifindex ? 0 : -ENETUNREACH;
}

static int find(int netns_fd, const struct pg_addr *addr, unsigned int flags, struct way *ret_way)
{
	struct mnl_socket *socket;
	int back, r = pg_netns_enter(netns_fd, &back, NULL);

	if (r < 0)
		return r;
	socket = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC | SOCK_NONBLOCK);
	r = socket ? 0 : -errno;
	pg_netns_leave(&back);
	if (!socket)
		return r;
	r = ask(socket, addr, flags, ret_way);
	mnl_socket_close(socket);
	return r;
}

int pg_device_bind(int fd, int netns_fd, const struct pg_addr *addr)
{
	struct way way;
	int r = find(netns_fd, addr, 0, &way);

	if (r < 0)
		return r;
	return setsockopt(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &way.ifindex, sizeof(way.ifindex)) < 0
		       ? -errno
		       : 0;
}

bool pg_device_may_be_inside(int netns_fd, const struct pg_addr *addr)
{
	struct way way;

	return find(netns_fd, addr, 0, &way) < 0 || way.ifindex == LOOPBACK_IFINDEX;
}

bool pg_device_is_near(int netns_fd, const struct pg_addr *addr)
{
	struct way way, here;

	if (find(netns_fd, addr, RTM_F_FIB_MATCH, &way) < 0 || way.is_default || way.by_router ||
	    way.to_many)
		return false;
	return find(-1, addr, 0, &here) < 0 || here.ifindex != LOOPBACK_IFINDEX;
}
