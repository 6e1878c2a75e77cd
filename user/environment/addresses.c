/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The addresses of this process's network namespace, kept current by rtnetlink (RFC 3549, kernel
 * Documentation/userspace-api/netlink). They are every Environment's own here: connect() to one of
 * them is loopback. And they are the host's, on which an operator may let few ports be opened.
 */
#include "host_internal.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <sys/epoll.h>

#include <libmnl/libmnl.h>

#include "base/vector.h"

/* What the kernel fills at most in one part of a dump (include/linux/netlink.h). */
#define ADDRESSES_BUFFER 32768

struct pg_addresses {
	struct pg_host *host;
	struct mnl_socket *socket;
	struct pg_source source;
	struct pg_addr *items;
	size_t count, room;
	/* Changes were lost: what was there before, and is not in the dump that was asked for. */
	struct pg_addr *doubted;
	size_t doubted_count;
	bool changed;
};

static void warn(const struct pg_host *host, const struct pg_error *err)
{
	pg_host_warn(host, "own_address", err->text);
}

static void add_to_environments(const struct pg_addresses *addresses, const struct pg_addr *addr)
{
	const struct pg_environment *environment;
	struct pg_error err = {};

	LIST_FOREACH (environment, &addresses->host->environments, link)
		if (pg_own_add(addresses->host->kernel, environment->header.env_id, addr, &err))
			warn(addresses->host, &err);
}

static void remove_from_environments(const struct pg_addresses *addresses,
				     const struct pg_addr *addr)
{
	const struct pg_environment *environment;

	LIST_FOREACH (environment, &addresses->host->environments, link)
		pg_own_remove(addresses->host->kernel, environment->header.env_id, addr);
}

static struct pg_addr *find_in(struct pg_addr *items, size_t count, const struct pg_addr *addr)
{
	for (size_t i = 0; i < count; i++)
		if (!pg_addr_compare(&items[i], addr))
			return &items[i];
	return NULL;
}

static struct pg_addr *find(const struct pg_addresses *addresses, const struct pg_addr *addr)
{
	return find_in(addresses->items, addresses->count, addr);
}

static void add(struct pg_addresses *addresses, const struct pg_addr *addr)
{
	struct pg_addr *doubted = find_in(addresses->doubted, addresses->doubted_count, addr);
	struct pg_error err = {};

	if (doubted)
		*doubted = addresses->doubted[--addresses->doubted_count];
	if (find(addresses, addr))
		return;
	if (pg_vector_grow(&addresses->items, addresses->count, &addresses->room,
			   sizeof(*addresses->items))) {
		pg_fail(&err, -ENOMEM, "not enough memory for an own address");
		warn(addresses->host, &err);
		return;
	}
	addresses->items[addresses->count++] = *addr;
	addresses->changed = true;
	add_to_environments(addresses, addr);
}

static void drop(struct pg_addresses *addresses, const struct pg_addr *addr)
{
	struct pg_addr *found = find(addresses, addr);

	if (!found)
		return;
	*found = addresses->items[--addresses->count];
	addresses->changed = true;
	remove_from_environments(addresses, addr);
}

/* Everything may have gone; until the dump says what, it stays: what is no address of the host
 * could be open by an entry. */
static int doubt(struct pg_addresses *addresses, struct pg_error *err)
{
	struct pg_addr *doubted =
		reallocarray(addresses->doubted, addresses->count + 1, sizeof(*addresses->doubted));

	if (!doubted)
		return pg_fail(err, -ENOMEM, "not enough memory for the own addresses");
	addresses->doubted = doubted;
	for (size_t i = 0; i < addresses->count; i++)
		doubted[i] = addresses->items[i];
	addresses->doubted_count = addresses->count;
	return 0;
}

/* The dump is over. */
static void end_doubt(struct pg_addresses *addresses)
{
	while (addresses->doubted_count)
		drop(addresses, &addresses->doubted[--addresses->doubted_count]);
}

static int read_attribute(const struct nlattr *attribute, void *data)
{
	const struct nlattr **table = data;

	if (mnl_attr_type_valid(attribute, IFA_MAX) > 0)
		table[mnl_attr_get_type(attribute)] = attribute;
	return MNL_CB_OK;
}

static int handle_message(const struct nlmsghdr *message, void *userdata)
{
	const struct ifaddrmsg *body = mnl_nlmsg_get_payload(message);
	const struct nlattr *attributes[IFA_MAX + 1] = {}, *attribute;
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
		drop(userdata, &addr);
	else
		add(userdata, &addr);
	return MNL_CB_OK;
}

static int request_dump(struct pg_addresses *addresses, struct pg_error *err)
{
	char buffer[MNL_NLMSG_HDRLEN + MNL_ALIGN(sizeof(struct rtgenmsg))];
	struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);
	struct rtgenmsg *body;

	message->nlmsg_type = RTM_GETADDR;
	message->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	body = mnl_nlmsg_put_extra_header(message, sizeof(*body));
	body->rtgen_family = AF_UNSPEC;
	if (mnl_socket_sendto(addresses->socket, message, message->nlmsg_len) < 0)
		return pg_fail_errno(err, -errno, "asking for the namespace's addresses");
	return 0;
}

/* Reads what is there; the socket does not block. */
static int read_messages(struct pg_addresses *addresses, struct pg_error *err)
{
	pg_autofree char *buffer = malloc(ADDRESSES_BUFFER);
	bool again = false;
	ssize_t got;
	int ran;

	if (!buffer)
		return pg_fail(err, -ENOMEM, "not enough memory to read addresses");
	for (;;) {
		got = mnl_socket_recvfrom(addresses->socket, buffer, ADDRESSES_BUFFER);
		if (got < 0 && errno == ENOBUFS) {
			const int error = doubt(addresses, err);

			return error ? error : request_dump(addresses, err);
		}
		if (got < 0 && (errno == EAGAIN || errno == EINTR))
			return again ? request_dump(addresses, err) : 0;
		if (got < 0)
			return pg_fail_errno(err, -errno, "reading addresses");
		ran = mnl_cb_run(buffer, (size_t)got, 0, 0, handle_message, addresses);
		if (ran == MNL_CB_STOP && !again)
			end_doubt(addresses);
		if (ran >= 0)
			continue;
		/* Addresses changed during the dump, which may lack some: ask again behind it. */
		if (errno == EINTR)
			again = true;
		else
			return pg_fail_errno(err, -errno, "reading the namespace's addresses");
	}
}

static int process_addresses(struct pg_addresses *addresses, struct pg_error *err)
{
	int error = read_messages(addresses, err);

	if (error || !addresses->changed)
		return error;
	addresses->changed = false;
	if (!addresses->host->limit_ports)
		return 0;
	return pg_host_addresses_set(addresses->host->kernel, addresses->items, addresses->count,
				     err);
}

/* What cannot be read now could not be read the next time either: better stale than a busy loop. */
static int watch_addresses(void *userdata, struct pg_error *err)
{
	struct pg_addresses *addresses = userdata;
	int error = process_addresses(addresses, err);

	if (error)
		pg_host_remove_source(addresses->host, mnl_socket_get_fd(addresses->socket),
				      &addresses->source);
	return error;
}

static int open_socket(struct pg_addresses *addresses, struct pg_error *err)
{
	int error;

	addresses->socket = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (!addresses->socket ||
	    mnl_socket_bind(addresses->socket, RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR,
			    MNL_SOCKET_AUTOPID) < 0)
		return pg_fail_errno(err, -errno, "opening a route socket");
	/* The kernel answers a dump within the send call, so everything is there to be read. */
	error = request_dump(addresses, err);
	if (!error)
		error = process_addresses(addresses, err);
	if (error)
		return error;
	addresses->source = (struct pg_source){watch_addresses, addresses};
	return pg_host_add_source(addresses->host, mnl_socket_get_fd(addresses->socket), EPOLLIN,
				  &addresses->source, err);
}

int pg_addresses_watch(struct pg_host *host, struct pg_error *err)
{
	struct pg_addresses *addresses = calloc(1, sizeof(*addresses));

	if (!addresses)
		return pg_fail(err, -ENOMEM, "not enough memory for the own addresses");
	addresses->host = host;
	host->addresses = addresses;
	return open_socket(addresses, err);
}

int pg_addresses_own(struct pg_environment *environment, struct pg_error *err)
{
	const struct pg_addresses *addresses = environment->host->addresses;
	struct pg_kernel *kernel = environment->host->kernel;
	const uint64_t env_id = environment->header.env_id;
	int error = 0;

	for (size_t i = 0; i < addresses->count && !error; i++)
		error = pg_own_add(kernel, env_id, &addresses->items[i], err);
	/* What an earlier owner knew and is not there any more. */
	if (!error)
		pg_own_retain(kernel, env_id, addresses->items, addresses->count);
	return error;
}

bool pg_addresses_have(const struct pg_addresses *addresses, const struct pg_addr *addr)
{
	return find(addresses, addr);
}

void pg_addresses_free(struct pg_addresses *addresses)
{
	if (!addresses)
		return;
	if (addresses->socket) {
		pg_host_remove_source(addresses->host, mnl_socket_get_fd(addresses->socket),
				      &addresses->source);
		mnl_socket_close(addresses->socket);
	}
	free(addresses->items);
	free(addresses->doubted);
	free(addresses);
}
