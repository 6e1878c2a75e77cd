/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The addresses of the caller's network namespace, kept current by rtnetlink (RFC 3549, kernel
 * Documentation/userspace-api/netlink): connect() to one of them is loopback.
 */
#include "host_internal.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <sys/epoll.h>

#include <libmnl/libmnl.h>

/* What the kernel fills at most in one part of a dump (include/linux/netlink.h). */
#define ADDRESSES_BUFFER 32768

static int read_attribute(const struct nlattr *attribute, void *data)
{
	const struct nlattr **table = data;

	if (mnl_attr_type_valid(attribute, IFA_MAX) > 0)
		table[mnl_attr_get_type(attribute)] = attribute;
	return MNL_CB_OK;
}

static int handle_message(const struct nlmsghdr *message, void *userdata)
{
	struct pg_environment *environment = userdata;
	const struct ifaddrmsg *body = mnl_nlmsg_get_payload(message);
	const struct nlattr *attributes[IFA_MAX + 1] = {}, *attribute;
	struct pg_error err = {};
	struct pg_addr addr;

	if (message->nlmsg_type != RTM_NEWADDR && message->nlmsg_type != RTM_DELADDR)
		return MNL_CB_OK;
	mnl_attr_parse(message, sizeof(*body), read_attribute, attributes);
	/* IFA_LOCAL is the own end of a point-to-point link, where IFA_ADDRESS is the peer's. */
	attribute = attributes[IFA_LOCAL] ? attributes[IFA_LOCAL] : attributes[IFA_ADDRESS];
	if (!attribute)
		return MNL_CB_OK;
	if (body->ifa_family == AF_INET && mnl_attr_get_payload_len(attribute) == 4)
		addr = pg_addr_from_v4(mnl_attr_get_u32(attribute));
	else if (body->ifa_family == AF_INET6 && mnl_attr_get_payload_len(attribute) == 16)
		addr = pg_addr_from_bytes(mnl_attr_get_payload(attribute));
	else
		return MNL_CB_OK;
	if (message->nlmsg_type == RTM_DELADDR)
		pg_own_remove(environment->host->kernel, environment->header.env_id, &addr);
	else if (pg_own_add(environment->host->kernel, environment->header.env_id, &addr, &err))
		pg_host_warn(environment->host, "own_address", err.text);
	return MNL_CB_OK;
}

static int request_dump(struct pg_environment *environment, struct pg_error *err)
{
	char buffer[MNL_NLMSG_HDRLEN + MNL_ALIGN(sizeof(struct rtgenmsg))];
	struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);
	struct rtgenmsg *body;

	message->nlmsg_type = RTM_GETADDR;
	message->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	body = mnl_nlmsg_put_extra_header(message, sizeof(*body));
	body->rtgen_family = AF_UNSPEC;
	if (mnl_socket_sendto(environment->addresses, message, message->nlmsg_len) < 0)
		return pg_fail_errno(err, -errno, "asking for the namespace's addresses");
	return 0;
}

/* Reads what is there; the socket does not block. */
static int process_addresses(struct pg_environment *environment, struct pg_error *err)
{
	pg_autofree char *buffer = malloc(ADDRESSES_BUFFER);
	bool again = false;
	ssize_t got;

	if (!buffer)
		return pg_fail(err, -ENOMEM, "not enough memory to read addresses");
	for (;;) {
		got = mnl_socket_recvfrom(environment->addresses, buffer, ADDRESSES_BUFFER);
		if (got < 0 && errno == ENOBUFS) {
			/* Changes were lost: start over. */
			pg_own_clear(environment->host->kernel, environment->header.env_id);
			return request_dump(environment, err);
		}
		if (got < 0 && (errno == EAGAIN || errno == EINTR))
			return again ? request_dump(environment, err) : 0;
		if (got < 0)
			return pg_fail_errno(err, -errno, "reading addresses");
		if (mnl_cb_run(buffer, (size_t)got, 0, 0, handle_message, environment) >= 0)
			continue;
		/* Addresses changed during the dump, which may lack some: ask again behind it. */
		if (errno == EINTR)
			again = true;
		else
			return pg_fail_errno(err, -errno, "reading the namespace's addresses");
	}
}

/* What cannot be read now could not be read the next time either: better stale than a busy loop. */
static int watch_addresses(void *userdata, struct pg_error *err)
{
	struct pg_environment *environment = userdata;
	int error = process_addresses(environment, err);

	if (error)
		pg_host_remove_source(environment->host, mnl_socket_get_fd(environment->addresses),
				      &environment->addresses_source);
	return error;
}

int pg_own_addresses_start(struct pg_environment *environment, struct pg_error *err)
{
	int error;

	environment->addresses = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (!environment->addresses ||
	    mnl_socket_bind(environment->addresses, RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR,
			    MNL_SOCKET_AUTOPID) < 0)
		return pg_fail_errno(err, -errno, "opening a route socket");
	/* The kernel answers a dump within the send call, so everything is there to be read. */
	error = request_dump(environment, err);
	if (!error)
		error = process_addresses(environment, err);
	if (error)
		return error;
	environment->addresses_source = (struct pg_source){watch_addresses, environment};
	return pg_host_add_source(environment->host, mnl_socket_get_fd(environment->addresses),
				  EPOLLIN, &environment->addresses_source, err);
}

void pg_own_addresses_stop(struct pg_environment *environment)
{
	if (!environment->addresses)
		return;
	pg_host_remove_source(environment->host, mnl_socket_get_fd(environment->addresses),
			      &environment->addresses_source);
	mnl_socket_close(environment->addresses);
	environment->addresses = NULL;
	pg_own_clear(environment->host->kernel, environment->header.env_id);
}
