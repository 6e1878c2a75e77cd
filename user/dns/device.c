/* SPDX-License-Identifier: Apache-2.0 */
#include "device.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <libmnl/libmnl.h>

#include "base/netns.h"

#define REPLY_BYTES 4096

static int take_device(const struct nlattr *attribute, void *data)
{
	int *ifindex = data;

	if (mnl_attr_get_type(attribute) == RTA_OIF)
		*ifindex = (int)mnl_attr_get_u32(attribute);
	return MNL_CB_OK;
}

static int take_route(const struct nlmsghdr *message, void *data)
{
	if (message->nlmsg_type == RTM_NEWROUTE)
		mnl_attr_parse(message, sizeof(struct rtmsg), take_device, data);
	return MNL_CB_OK;
}

/* The kernel answers within the send call. */
static int ask(const struct mnl_socket *socket, const struct pg_addr *addr, int *ret_ifindex)
{
	char reply[REPLY_BYTES];
	struct nlmsghdr *message = mnl_nlmsg_put_header(reply);
	struct rtmsg *route = mnl_nlmsg_put_extra_header(message, sizeof(*route));
	ssize_t got;

	message->nlmsg_type = RTM_GETROUTE;
	message->nlmsg_flags = NLM_F_REQUEST;
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
	if (got < 0 || mnl_cb_run(reply, (size_t)got, 0, 0, take_route, ret_ifindex) < 0)
		return -errno;
	return *ret_ifindex ? 0 : -ENETUNREACH;
}

static int find(int netns_fd, const struct pg_addr *addr, int *ret_ifindex)
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
	r = ask(socket, addr, ret_ifindex);
	mnl_socket_close(socket);
	return r;
}

int pg_device_bind(int fd, int netns_fd, const struct pg_addr *addr)
{
	int ifindex = 0, r = find(netns_fd, addr, &ifindex);

	if (r < 0)
		return r;
	return setsockopt(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &ifindex, sizeof(ifindex)) < 0 ? -errno
											   : 0;
}
