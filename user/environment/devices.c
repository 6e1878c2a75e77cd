/* SPDX-License-Identifier: Apache-2.0 */
#include "devices.h"

#include <errno.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>

#include <libmnl/libmnl.h>

#include <phasegate/abi/link.h>

/* A hundred containers that start at once change some thousand times. */
#define EVENTS_BUFFER (4 * 1024 * 1024)

int pg_devices_open(bool events, struct mnl_socket **ret_socket, struct pg_error *err)
{
	struct mnl_socket *socket = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC | SOCK_NONBLOCK);
	const int size = EVENTS_BUFFER;
	int error;

	if (!socket)
		return pg_fail_errno(err, -errno, "opening a route socket");
	if (mnl_socket_bind(socket, events ? RTMGRP_LINK : 0, MNL_SOCKET_AUTOPID) < 0) {
		error = pg_fail_errno(err, -errno, "listening for network interfaces");
		mnl_socket_close(socket);
		return error;
	}
	/* Without the right to have more, what is lost is asked for again. */
	if (events)
		(void)setsockopt(mnl_socket_get_fd(socket), SOL_SOCKET, SO_RCVBUFFORCE, &size,
				 sizeof(size));
	*ret_socket = socket;
	return 0;
}

static struct nlmsghdr *put_request(char *buffer, int flags, unsigned int ifindex)
{
	struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);
	struct ifinfomsg *body;

	message->nlmsg_type = RTM_GETLINK;
	message->nlmsg_flags = (__u16)(NLM_F_REQUEST | flags);
	body = mnl_nlmsg_put_extra_header(message, sizeof(*body));
	body->ifi_family = AF_UNSPEC;
	body->ifi_index = (int)ifindex;
	mnl_attr_put_u32(message, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
	return message;
}

static int send_request(struct mnl_socket *socket, const struct nlmsghdr *message,
			struct pg_error *err)
{
	if (mnl_socket_sendto(socket, message, message->nlmsg_len) < 0)
		return pg_fail_errno(err, -errno, "asking for network interfaces");
	return 0;
}

int pg_devices_ask_veths(struct mnl_socket *socket, struct pg_error *err)
{
	char buffer[256];
	struct nlmsghdr *message = put_request(buffer, NLM_F_DUMP, 0);
	struct nlattr *info = mnl_attr_nest_start(message, IFLA_LINKINFO);

	/* Without veths in the kernel it is no filter. */
	mnl_attr_put_strz(message, IFLA_INFO_KIND, "veth");
	mnl_attr_nest_end(message, info);
	return send_request(socket, message, err);
}

int pg_devices_ask_one(struct mnl_socket *socket, unsigned int ifindex, struct pg_error *err)
{
	char buffer[256];

	return send_request(socket, put_request(buffer, 0, ifindex), err);
}

int pg_devices_ask_all(struct mnl_socket *socket, int nsid, struct pg_error *err)
{
	char buffer[256];
	struct nlmsghdr *message = put_request(buffer, NLM_F_DUMP, 0);

	mnl_attr_put_u32(message, IFLA_TARGET_NETNSID, (uint32_t)nsid);
	return send_request(socket, message, err);
}

static int read_attribute(const struct nlattr *attribute, void *data)
{
	const struct nlattr **table = data;

	if (mnl_attr_type_valid(attribute, IFLA_MAX) > 0)
		table[mnl_attr_get_type(attribute)] = attribute;
	return MNL_CB_OK;
}

static void read_text(const struct nlattr *attribute, char *text, size_t room)
{
	if (attribute && mnl_attr_validate(attribute, MNL_TYPE_NUL_STRING) >= 0)
		snprintf(text, room, "%s", mnl_attr_get_str(attribute));
}

static void read_kind(const struct nlattr *info, struct pg_device *device)
{
	const struct nlattr *attribute;

	if (!info)
		return;
	mnl_attr_for_each_nested (attribute, info) {
		if (mnl_attr_get_type(attribute) == IFLA_INFO_KIND)
			read_text(attribute, device->kind, sizeof(device->kind));
	}
}

static uint64_t read_station(const struct nlattr *attribute)
{
	uint64_t station = 0;

	if (attribute && mnl_attr_get_payload_len(attribute) == PG_STATION_SIZE)
		memcpy(&station, mnl_attr_get_payload(attribute), PG_STATION_SIZE);
	return station;
}

static int read_number(const struct nlattr *attribute, int otherwise)
{
	return attribute && mnl_attr_get_payload_len(attribute) == sizeof(uint32_t)
		       ? (int)mnl_attr_get_u32(attribute)
		       : otherwise;
}

struct reading {
	pg_device_visit visit;
	void *userdata;
};

static int handle_message(const struct nlmsghdr *message, void *userdata)
{
	const struct reading *reading = userdata;
	const struct ifinfomsg *body = mnl_nlmsg_get_payload(message);
	const struct nlattr *attributes[IFLA_MAX + 1] = {};
	struct pg_device device = {};

	/* Of another family it tells of a port of a bridge. */
	if ((message->nlmsg_type != RTM_NEWLINK && message->nlmsg_type != RTM_DELLINK) ||
	    mnl_nlmsg_get_payload_len(message) < sizeof(*body) || body->ifi_family != AF_UNSPEC)
		return MNL_CB_OK;
	mnl_attr_parse(message, sizeof(*body), read_attribute, attributes);
	device.ifindex = (unsigned int)body->ifi_index;
	device.loopback = body->ifi_flags & IFF_LOOPBACK;
	device.deleted = message->nlmsg_type == RTM_DELLINK;
	read_text(attributes[IFLA_IFNAME], device.name, sizeof(device.name));
	read_kind(attributes[IFLA_LINKINFO], &device);
	device.peer = (unsigned int)read_number(attributes[IFLA_LINK], 0);
	device.station = read_station(attributes[IFLA_ADDRESS]);
	device.master = (unsigned int)read_number(attributes[IFLA_MASTER], 0);
	device.peer_nsid = read_number(attributes[IFLA_LINK_NETNSID], PG_NSID_NONE);
	device.moved_nsid = read_number(attributes[IFLA_NEW_NETNSID], PG_NSID_NONE);
	reading->visit(reading->userdata, &device);
	return MNL_CB_OK;
}

/* No interface of that index, no namespace of that id. */
static bool is_gone(int error)
{
	return error == ENODEV || error == EINVAL || error == ENOENT;
}

int pg_devices_read(struct mnl_socket *socket, pg_device_visit visit, void *userdata,
		    enum pg_devices_read *ret_how, struct pg_error *err)
{
	struct reading reading = {visit, userdata};
	pg_autofree char *buffer = malloc(PG_NETLINK_DUMP_BYTES);
	bool ended = false, again = false;

	if (!buffer)
		return pg_fail(err, -ENOMEM, "not enough memory to read network interfaces");
	for (;;) {
		const ssize_t got = mnl_socket_recvfrom(socket, buffer, PG_NETLINK_DUMP_BYTES);
		int ran;

		if (got < 0 && (errno == EAGAIN || errno == EINTR))
			break;
		if (got < 0 && errno == ENOBUFS) {
			again = true;
			continue;
		}
		if (got < 0)
			return pg_fail_errno(err, -errno, "reading network interfaces");
		ran = mnl_cb_run(buffer, (size_t)got, 0, 0, handle_message, &reading);
		ended |= ran == MNL_CB_STOP;
		/* Interfaces changed during the list, which may lack some. */
		if (ran < 0 && errno == EINTR)
			again = true;
		else if (ran < 0 && !is_gone(errno))
			return pg_fail_errno(err, -errno, "reading network interfaces");
	}
	*ret_how = again ? PG_DEVICES_AGAIN : ended ? PG_DEVICES_ENDED : PG_DEVICES_READ;
	return 0;
}
