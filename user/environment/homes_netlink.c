/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking and hearing the kernel: rtnetlink(7) with namespace ids, by which the namespace of this
 * process knows others without keeping them alive (NETLINK_LISTEN_ALL_NSID in netlink(7)).
 */
#include "homes.h"

#include <errno.h>
#include <linux/if_link.h>
#include <linux/net_namespace.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>

#include <libmnl/libmnl.h>

#include "base/cleanup.h"
#include "devices.h"

/* For what is said while this process does something else. */
#define HEARD_BYTES   (1024 * 1024)
/* Read in one call, so that others get their turn. */
#define MESSAGES_MAX  256
#define REQUEST_BYTES 256
#define LIST_TRIES    10

static int open_asked(struct pg_homes_netlink *netlink, struct pg_error *err)
{
	int yes = 1, error;

	netlink->asked = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	if (netlink->asked && mnl_socket_bind(netlink->asked, 0, MNL_SOCKET_AUTOPID) >= 0 &&
	    mnl_socket_setsockopt(netlink->asked, NETLINK_GET_STRICT_CHK, &yes, sizeof(yes)) >= 0)
		return 0;
	error = pg_fail_errno(err, -errno, "opening a route socket for other namespaces");
	if (netlink->asked)
		mnl_socket_close(netlink->asked);
	netlink->asked = NULL;
	return error;
}

static int open_heard(struct pg_homes_netlink *netlink, struct pg_error *err)
{
	int groups[] = {RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR, RTNLGRP_NSID};
	int bytes = HEARD_BYTES, yes = 1, failed = 0;

	netlink->heard = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (!netlink->heard || mnl_socket_bind(netlink->heard, 0, MNL_SOCKET_AUTOPID) < 0)
		return pg_fail_errno(err, -errno, "opening a route socket for other namespaces");
	if (mnl_socket_setsockopt(netlink->heard, NETLINK_LISTEN_ALL_NSID, &yes, sizeof(yes)) < 0)
		return pg_fail_errno(err, -errno,
				     "listening to other namespaces (needs CAP_NET_BROADCAST)");
	for (size_t i = 0; i < PG_ARRAY_SIZE(groups) && !failed; i++)
		failed = mnl_socket_setsockopt(netlink->heard, NETLINK_ADD_MEMBERSHIP, &groups[i],
					       sizeof(groups[i]));
	if (failed < 0)
		return pg_fail_errno(err, -errno,
				     "listening to the kernel's messages of addresses");
	setsockopt(mnl_socket_get_fd(netlink->heard), SOL_SOCKET, SO_RCVBUFFORCE, &bytes,
		   sizeof(bytes));
	return 0;
}

int pg_homes_netlink_open(struct pg_homes_netlink *netlink, struct pg_error *err)
{
	int error = open_asked(netlink, err);

	if (error)
		return error;
	error = open_heard(netlink, err);
	if (!error)
		return 0;
	if (netlink->heard)
		mnl_socket_close(netlink->heard);
	netlink->heard = NULL;
	return error;
}

void pg_homes_netlink_close(struct pg_homes_netlink *netlink)
{
	if (netlink->heard)
		mnl_socket_close(netlink->heard);
	if (netlink->asked)
		mnl_socket_close(netlink->asked);
	*netlink = (struct pg_homes_netlink){};
}

static int read_nsid(const struct nlmsghdr *message)
{
	const struct nlattr *attribute;

	mnl_attr_for_each (attribute, message, sizeof(struct rtgenmsg))
		if (mnl_attr_get_type(attribute) == NETNSA_NSID &&
		    mnl_attr_get_payload_len(attribute) == sizeof(int))
			return (int)mnl_attr_get_u32(attribute);
	return -1;
}

/* nsid -1: of this process's own namespace, whose addresses are heard elsewhere. */
static void hear(const struct nlmsghdr *message, int nsid, const struct pg_homes_hears *hears)
{
	struct pg_device_address address;

	switch (message->nlmsg_type) {
	case RTM_NEWADDR:
	case RTM_DELADDR:
		if (nsid >= 0 && pg_device_address_read(message, &address))
			hears->address(hears->userdata, nsid, address.ifindex, &address.addr,
				       message->nlmsg_type == RTM_NEWADDR);
		break;
	case RTM_NEWNSID:
		if (nsid < 0)
			hears->made(hears->userdata, read_nsid(message));
		break;
	case RTM_DELNSID:
		if (nsid < 0)
			hears->gone(hears->userdata, read_nsid(message));
		break;
	}
}

/* By which the namespace that the message is of is known; -1: it is the own one. */
static int nsid_of(struct msghdr *head)
{
	struct cmsghdr *control;
	int nsid = -1;

	for (control = CMSG_FIRSTHDR(head); control; control = CMSG_NXTHDR(head, control))
		if (control->cmsg_level == SOL_NETLINK &&
		    control->cmsg_type == NETLINK_LISTEN_ALL_NSID)
			memcpy(&nsid, CMSG_DATA(control), sizeof(nsid));
	return nsid;
}

/* Returns what recvmsg() does. */
static ssize_t read_one(struct pg_homes_netlink *netlink, void *buffer,
			const struct pg_homes_hears *hears)
{
	union {
		struct cmsghdr head;
		char bytes[256];
	} control;
	struct sockaddr_nl from = {};
	struct iovec part = {buffer, PG_NETLINK_DUMP_BYTES};
	struct msghdr head = {.msg_name = &from,
			      .msg_namelen = sizeof(from),
			      .msg_iov = &part,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control)};
	ssize_t got = recvmsg(mnl_socket_get_fd(netlink->heard), &head, 0);
	const struct nlmsghdr *message = buffer;
	int left = (int)got;

	if (got <= 0 || from.nl_pid)
		return got;
	for (; mnl_nlmsg_ok(message, left); message = mnl_nlmsg_next(message, &left))
		hear(message, nsid_of(&head), hears);
	return got;
}

int pg_homes_netlink_read(struct pg_homes_netlink *netlink, const struct pg_homes_hears *hears,
			  struct pg_error *err)
{
	pg_autofree void *buffer = malloc(PG_NETLINK_DUMP_BYTES);

	if (!buffer)
		return pg_fail(err, -ENOMEM, "not enough memory to read addresses");
	for (size_t i = 0; i < MESSAGES_MAX; i++) {
		if (read_one(netlink, buffer, hears) >= 0 || errno == EINTR)
			continue;
		return errno == EAGAIN ? 0 : pg_fail_errno(err, -errno, "hearing of addresses");
	}
	return 0;
}

static int exchange(struct pg_homes_netlink *netlink, struct nlmsghdr *request, mnl_cb_t callback,
		    void *userdata)
{
	pg_autofree char *buffer = malloc(PG_NETLINK_DUMP_BYTES);
	static uint32_t sequence;
	ssize_t got;
	int ran = MNL_CB_OK;

	if (!buffer)
		return -ENOMEM;
	if (!netlink->asked && open_asked(netlink, NULL))
		return -EIO;
	request->nlmsg_seq = ++sequence;
	if (mnl_socket_sendto(netlink->asked, request, request->nlmsg_len) < 0)
		return -errno;
	while (ran == MNL_CB_OK) {
		got = mnl_socket_recvfrom(netlink->asked, buffer, PG_NETLINK_DUMP_BYTES);
		if (got < 0)
			return -errno;
		ran = mnl_cb_run(buffer, (size_t)got, sequence,
				 mnl_socket_get_portid(netlink->asked), callback, userdata);
	}
	return ran < 0 ? -errno : 0;
}

/* After an error the rest of the answer is thrown away with the socket. */
static int ask(struct pg_homes_netlink *netlink, struct nlmsghdr *request, mnl_cb_t callback,
	       void *userdata)
{
	const int error = exchange(netlink, request, callback, userdata);

	if (error && netlink->asked) {
		mnl_socket_close(netlink->asked);
		netlink->asked = NULL;
	}
	return error;
}

/* EINTR: the list changed while it was read, and may lack something. */
static int ask_list(struct pg_homes_netlink *netlink, struct nlmsghdr *request, mnl_cb_t callback,
		    void *userdata)
{
	int error = -EINTR;

	for (int i = 0; i < LIST_TRIES && error == -EINTR; i++)
		error = ask(netlink, request, callback, userdata);
	return error;
}

static int take_nsid(const struct nlmsghdr *message, void *userdata)
{
	if (message->nlmsg_type == RTM_NEWNSID)
		*(int *)userdata = read_nsid(message);
	return MNL_CB_STOP;
}

static int ask_nsid(struct pg_homes_netlink *netlink, int netns_fd, int *ret_nsid)
{
	char buffer[REQUEST_BYTES] = {};
	struct nlmsghdr *request = mnl_nlmsg_put_header(buffer);

	request->nlmsg_type = RTM_GETNSID;
	request->nlmsg_flags = NLM_F_REQUEST;
	mnl_nlmsg_put_extra_header(request, sizeof(struct rtgenmsg));
	mnl_attr_put_u32(request, NETNSA_FD, (uint32_t)netns_fd);
	*ret_nsid = -1;
	return ask(netlink, request, take_nsid, ret_nsid);
}

static int assign_nsid(struct pg_homes_netlink *netlink, int netns_fd)
{
	char buffer[REQUEST_BYTES] = {};
	struct nlmsghdr *request = mnl_nlmsg_put_header(buffer);

	request->nlmsg_type = RTM_NEWNSID;
	request->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
	mnl_nlmsg_put_extra_header(request, sizeof(struct rtgenmsg));
	mnl_attr_put_u32(request, NETNSA_FD, (uint32_t)netns_fd);
	mnl_attr_put_u32(request, NETNSA_NSID, (uint32_t)NETNSA_NSID_NOT_ASSIGNED);
	return ask(netlink, request, NULL, NULL);
}

int pg_homes_netlink_id(struct pg_homes_netlink *netlink, int netns_fd, bool assign, int *ret_nsid,
			struct pg_error *err)
{
	int nsid, error = ask_nsid(netlink, netns_fd, &nsid);

	if (!error && nsid < 0 && assign) {
		error = assign_nsid(netlink, netns_fd);
		/* Somebody else was faster. */
		if (!error || error == -EEXIST)
			error = ask_nsid(netlink, netns_fd, &nsid);
		if (!error && nsid < 0)
			error = -ENOENT;
	}
	if (error)
		return pg_fail_errno(err, error, "numbering a network namespace");
	*ret_nsid = nsid;
	return 0;
}

struct listing {
	pg_home_visit visit;
	void *userdata;
	int error;
};

static int take_address(const struct nlmsghdr *message, void *userdata)
{
	struct listing *listing = userdata;
	struct pg_device_address address;

	if (message->nlmsg_type == RTM_NEWADDR && !listing->error &&
	    pg_device_address_read(message, &address))
		listing->error = listing->visit(listing->userdata, address.ifindex, &address.addr);
	return MNL_CB_OK;
}

int pg_homes_netlink_addresses(struct pg_homes_netlink *netlink, int nsid, pg_home_visit visit,
			       void *userdata, struct pg_error *err)
{
	static const unsigned char families[] = {AF_INET, AF_INET6};
	struct listing listing = {visit, userdata, 0};
	int error = 0;

	for (size_t i = 0; i < PG_ARRAY_SIZE(families) && !error; i++) {
		char buffer[REQUEST_BYTES] = {};
		struct nlmsghdr *request = mnl_nlmsg_put_header(buffer);
		struct ifaddrmsg *body;

		request->nlmsg_type = RTM_GETADDR;
		request->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
		body = mnl_nlmsg_put_extra_header(request, sizeof(*body));
		body->ifa_family = families[i];
		mnl_attr_put_u32(request, IFA_TARGET_NETNSID, (uint32_t)nsid);
		error = ask_list(netlink, request, take_address, &listing);
		error = error ? error : listing.error;
	}
	return error ? pg_fail_errno(err, error, "listing the addresses of a network namespace")
		     : 0;
}

struct joining {
	int nsid;
	bool joined;
};

static bool is_veth(const struct nlattr *info)
{
	const struct nlattr *attribute;

	mnl_attr_for_each_nested (attribute, info)
		if (mnl_attr_get_type(attribute) == IFLA_INFO_KIND)
			return strcmp(mnl_attr_get_str(attribute), "veth") == 0;
	return false;
}

static int take_link(const struct nlmsghdr *message, void *userdata)
{
	struct joining *joining = userdata;
	const struct nlattr *attribute;
	bool veth = false, there = false;

	if (message->nlmsg_type != RTM_NEWLINK)
		return MNL_CB_OK;
	mnl_attr_for_each (attribute, message, sizeof(struct ifinfomsg)) {
		if (mnl_attr_get_type(attribute) == IFLA_LINKINFO)
			veth = is_veth(attribute);
		else if (mnl_attr_get_type(attribute) == IFLA_LINK_NETNSID)
			there = (int)mnl_attr_get_u32(attribute) == joining->nsid;
	}
	joining->joined |= veth && there;
	return MNL_CB_OK;
}

int pg_homes_netlink_joined(struct pg_homes_netlink *netlink, int nsid, bool *ret_joined,
			    struct pg_error *err)
{
	char buffer[REQUEST_BYTES] = {};
	struct nlmsghdr *request = mnl_nlmsg_put_header(buffer);
	struct joining joining = {.nsid = nsid};
	int error;

	request->nlmsg_type = RTM_GETLINK;
	request->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	mnl_nlmsg_put_extra_header(request, sizeof(struct ifinfomsg));
	error = ask_list(netlink, request, take_link, &joining);
	if (error)
		return pg_fail_errno(err, error, "listing the links of this network namespace");
	*ret_joined = joining.joined;
	return 0;
}
