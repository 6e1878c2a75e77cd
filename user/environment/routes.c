/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses, routers and neighbours, as the kernel lists them (rtnetlink(7)). */
#include "devices.h"

#include <errno.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>

#include <libmnl/libmnl.h>

#include "base/netns.h"
#include "base/vector.h"

#define LIST_TRIES 10

static int read_list(struct mnl_socket *socket, mnl_cb_t handle, void *userdata)
{
	pg_autofree char *buffer = malloc(PG_NETLINK_DUMP_BYTES);
	int error = 0;

	if (!buffer)
		return -ENOMEM;
	/* The kernel answers within the send call, and goes on with each part that is read; what it
	 * has begun is read to the end, so that the next list is the next one. */
	for (;;) {
		const ssize_t got = mnl_socket_recvfrom(socket, buffer, PG_NETLINK_DUMP_BYTES);

		if (got < 0)
			return errno == EAGAIN ? error : -errno;
		if (mnl_cb_run(buffer, (size_t)got, 0, 0, handle, userdata) < 0)
			error = -errno;
	}
}

/* Changes within a list make it incomplete, so it is asked for again; each call adds. */
static int ask(struct mnl_socket *socket, uint16_t type, mnl_cb_t handle, void *userdata)
{
	char request[MNL_NLMSG_HDRLEN + MNL_ALIGN(sizeof(struct rtmsg))];
	int error = -EINTR;

	for (int i = 0; i < LIST_TRIES && error == -EINTR; i++) {
		struct nlmsghdr *message = mnl_nlmsg_put_header(request);

		message->nlmsg_type = type;
		message->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
		mnl_nlmsg_put_extra_header(message, sizeof(struct rtmsg));
		error = mnl_socket_sendto(socket, message, message->nlmsg_len) < 0
				? -errno
				: read_list(socket, handle, userdata);
	}
	return error;
}

struct table {
	const struct nlattr *items[RTA_MAX + 1];
	unsigned int max;
};

static int read_attribute(const struct nlattr *attribute, void *data)
{
	struct table *table = data;

	if (mnl_attr_get_type(attribute) <= table->max)
		table->items[mnl_attr_get_type(attribute)] = attribute;
	return MNL_CB_OK;
}

static bool read_address(const void *data, size_t size, struct pg_addr *ret_addr)
{
	uint32_t v4;

	if (size == 16)
		*ret_addr = pg_addr_from_bytes(data);
	else if (size == sizeof(v4))
		*ret_addr = pg_addr_from_v4(*(const uint32_t *)memcpy(&v4, data, sizeof(v4)));
	else
		return false;
	return true;
}

static bool read_attribute_address(const struct nlattr *attribute, struct pg_addr *ret_addr)
{
	return attribute && read_address(mnl_attr_get_payload(attribute),
					 mnl_attr_get_payload_len(attribute), ret_addr);
}

bool pg_device_address_read(const struct nlmsghdr *message, struct pg_device_address *ret_address)
{
	const struct ifaddrmsg *body = mnl_nlmsg_get_payload(message);
	struct pg_device_address address = {};
	struct table table = {.max = IFA_MAX};
	struct pg_addr network;

	if (mnl_nlmsg_get_payload_len(message) < sizeof(*body))
		return false;
	mnl_attr_parse(message, sizeof(*body), read_attribute, &table);
	/* IFA_LOCAL is the own end of a point-to-point link, where IFA_ADDRESS is the peer's. */
	if (!read_attribute_address(table.items[table.items[IFA_LOCAL] ? IFA_LOCAL : IFA_ADDRESS],
				    &address.addr))
		return false;
	network = address.addr;
	(void)!read_attribute_address(table.items[IFA_ADDRESS], &network);
	address.network = pg_prefix_from_addr(&network);
	if (body->ifa_prefixlen < address.network.length)
		address.network.length = body->ifa_prefixlen;
	pg_prefix_mask(&address.network);
	(void)!read_attribute_address(table.items[IFA_BROADCAST], &address.broadcast);
	address.ifindex = body->ifa_index;
	*ret_address = address;
	return true;
}

struct listing_addresses {
	pg_device_address_visit visit;
	void *userdata;
};

static int take_address(const struct nlmsghdr *message, void *userdata)
{
	const struct listing_addresses *listing = userdata;
	struct pg_device_address address;

	if (message->nlmsg_type == RTM_NEWADDR && pg_device_address_read(message, &address))
		listing->visit(listing->userdata, &address);
	return MNL_CB_OK;
}

int pg_devices_addresses(struct mnl_socket *socket, pg_device_address_visit visit, void *userdata,
			 struct pg_error *err)
{
	struct listing_addresses listing = {visit, userdata};
	int error = ask(socket, RTM_GETADDR, take_address, &listing);

	return error ? pg_fail_errno(err, error, "listing the host's addresses") : 0;
}

static void take_gateway(const struct pg_device_routes *visits, const struct nlattr *gateway,
			 const struct nlattr *via)
{
	struct pg_addr addr;

	if (read_attribute_address(gateway, &addr))
		visits->router(visits->userdata, &addr);
	/* Of another family: that, and the address. */
	if (via && mnl_attr_get_payload_len(via) > sizeof(__kernel_sa_family_t) &&
	    read_address((const char *)mnl_attr_get_payload(via) + sizeof(__kernel_sa_family_t),
			 mnl_attr_get_payload_len(via) - sizeof(__kernel_sa_family_t), &addr))
		visits->router(visits->userdata, &addr);
}

static void take_hops(const struct pg_device_routes *visits, const struct nlattr *multipath)
{
	const char *at = mnl_attr_get_payload(multipath);
	size_t left = mnl_attr_get_payload_len(multipath);

	while (left >= sizeof(struct rtnexthop)) {
		struct rtnexthop hop;
		struct table table = {.max = RTA_MAX};

		memcpy(&hop, at, sizeof(hop));
		if (hop.rtnh_len < sizeof(hop) || hop.rtnh_len > left)
			return;
		mnl_attr_parse_payload(at + sizeof(hop), hop.rtnh_len - sizeof(hop), read_attribute,
				       &table);
		take_gateway(visits, table.items[RTA_GATEWAY], table.items[RTA_VIA]);
		if ((size_t)RTNH_ALIGN(hop.rtnh_len) >= left)
			return;
		at += RTNH_ALIGN(hop.rtnh_len);
		left -= RTNH_ALIGN(hop.rtnh_len);
	}
}

/* Of a default route without a router everything would be near. */
static void take_network(const struct pg_device_routes *visits, const struct rtmsg *body,
			 const struct nlattr *destination)
{
	struct pg_prefix network;
	struct pg_addr addr;

	if (!body->rtm_dst_len || !read_attribute_address(destination, &addr))
		return;
	network = pg_prefix_from_addr(&addr);
	if (body->rtm_dst_len < network.length)
		network.length = body->rtm_dst_len;
	pg_prefix_mask(&network);
	visits->network(visits->userdata, &network);
}

static int take_route(const struct nlmsghdr *message, void *userdata)
{
	const struct pg_device_routes *visits = userdata;
	const struct rtmsg *body = mnl_nlmsg_get_payload(message);
	struct table table = {.max = RTA_MAX};

	if (message->nlmsg_type != RTM_NEWROUTE || body->rtm_type != RTN_UNICAST)
		return MNL_CB_OK;
	mnl_attr_parse(message, sizeof(*body), read_attribute, &table);
	take_gateway(visits, table.items[RTA_GATEWAY], table.items[RTA_VIA]);
	if (table.items[RTA_MULTIPATH])
		take_hops(visits, table.items[RTA_MULTIPATH]);
	else if (!table.items[RTA_GATEWAY] && !table.items[RTA_VIA])
		take_network(visits, body, table.items[RTA_DST]);
	return MNL_CB_OK;
}

static int open_inside(int netns_fd, struct mnl_socket **ret_socket, struct pg_error *err)
{
	struct mnl_socket *socket;
	int back, error = pg_netns_enter(netns_fd, &back, err);

	if (error)
		return error;
	socket = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC | SOCK_NONBLOCK);
	error = socket ? 0 : -errno;
	pg_netns_leave(&back);
	*ret_socket = socket;
	return error ? pg_fail_errno(err, error, "opening a route socket") : 0;
}

int pg_devices_routes(int netns_fd, const struct pg_device_routes *visits, struct pg_error *err)
{
	struct pg_device_routes listing = *visits;
	struct mnl_socket *socket;
	int error = open_inside(netns_fd, &socket, err);

	if (error)
		return error;
	error = ask(socket, RTM_GETROUTE, take_route, &listing);
	mnl_socket_close(socket);
	return error ? pg_fail_errno(err, error, "listing the routes of a network namespace") : 0;
}

struct neighbours {
	unsigned int ifindex;
	struct pg_addr *items;
	size_t count, room;
};

/* Those that the kernel has found by asking. Not whom it still asks for: what waits for the answer
 * would fail at once (EHOSTUNREACH). */
static int take_neighbour(const struct nlmsghdr *message, void *userdata)
{
	struct neighbours *found = userdata;
	const struct ndmsg *body = mnl_nlmsg_get_payload(message);
	struct table table = {.max = NDA_MAX};
	struct pg_addr addr;

	if (message->nlmsg_type != RTM_NEWNEIGH || body->ndm_ifindex != (int)found->ifindex ||
	    !(body->ndm_state & (NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE)))
		return MNL_CB_OK;
	mnl_attr_parse(message, sizeof(*body), read_attribute, &table);
	if (!read_attribute_address(table.items[NDA_DST], &addr))
		return MNL_CB_OK;
	if (pg_vector_grow(&found->items, found->count, &found->room, sizeof(addr))) {
		errno = ENOMEM;
		return MNL_CB_ERROR;
	}
	found->items[found->count++] = addr;
	return MNL_CB_OK;
}

static int forget(struct mnl_socket *socket, unsigned int ifindex, const struct pg_addr *addr)
{
	char request[MNL_NLMSG_HDRLEN + MNL_ALIGN(sizeof(struct ndmsg)) + MNL_ATTR_HDRLEN +
		     MNL_ALIGN(sizeof(*addr))];
	struct nlmsghdr *message = mnl_nlmsg_put_header(request);
	const bool v4 = pg_addr_is_v4(addr);
	struct ndmsg *body;
	int error;

	message->nlmsg_type = RTM_DELNEIGH;
	message->nlmsg_flags = NLM_F_REQUEST;
	body = mnl_nlmsg_put_extra_header(message, sizeof(*body));
	body->ndm_family = v4 ? AF_INET : AF_INET6;
	body->ndm_ifindex = (int)ifindex;
	mnl_attr_put(message, NDA_DST, v4 ? sizeof(addr->word[3]) : sizeof(addr->word),
		     v4 ? &addr->word[3] : addr->word);
	if (mnl_socket_sendto(socket, message, message->nlmsg_len) < 0)
		return -errno;
	error = read_list(socket, NULL, NULL);
	/* It has gone by itself. */
	return error == -ENOENT ? 0 : error;
}

int pg_devices_forget_neighbours(int netns_fd, unsigned int ifindex, struct pg_error *err)
{
	PG_CLEANUP(pg_free_ptr) struct pg_addr *items = NULL;
	struct neighbours found = {.ifindex = ifindex};
	struct mnl_socket *socket;
	int error = open_inside(netns_fd, &socket, err);

	if (error)
		return error;
	error = ask(socket, RTM_GETNEIGH, take_neighbour, &found);
	items = found.items;
	for (size_t i = 0; i < found.count && !error; i++)
		error = forget(socket, ifindex, &items[i]);
	mnl_socket_close(socket);
	return error ? pg_fail_errno(err, error, "having the kernel ask its neighbours anew") : 0;
}
