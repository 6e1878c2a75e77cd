/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The addresses of this process's network namespace, kept current by rtnetlink (RFC 3549, kernel
 * Documentation/userspace-api/netlink). They are the own ones of Environments that are at home here
 * (homes.h). And they are the host's, on which an operator may let few ports be opened.
 */
#include "host_internal.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/epoll.h>

#include <libmnl/libmnl.h>

#include "base/vector.h"
#include "devices.h"
#include "net/prefix.h"

/* What else an address makes the host receive: packets to all of its network, and, of IPv6, to any
 * router of it. */
struct network {
	struct pg_prefix prefix;
	struct pg_addr broadcast; /* unspecified: none was given */
};

#define SHARED_MAX 3

struct pg_addresses {
	struct pg_host *host;
	struct mnl_socket *socket;
	struct pg_source source;
	struct pg_addr *items;
	struct network *networks; /* of each item */
	size_t count, room, network_room;
	/* Changes were lost: what was there before, and is not in the dump that was asked for. */
	struct pg_addr *doubted;
	size_t doubted_count;
	bool changed;
	bool dropped; /* an address of an interface; another may have the same */
};

static void warn(const struct pg_host *host, const struct pg_error *err)
{
	pg_host_warn(host, "own_address", err->text);
}

static bool is_same(const struct network *a, const struct network *b)
{
	return !pg_prefix_compare(&a->prefix, &b->prefix) &&
	       !pg_addr_compare(&a->broadcast, &b->broadcast);
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

static void add(struct pg_addresses *addresses, const struct pg_addr *addr,
		const struct network *network)
{
	struct pg_addr *doubted = find_in(addresses->doubted, addresses->doubted_count, addr);
	const struct pg_addr *found = find(addresses, addr);
	struct pg_error err = {};

	if (doubted)
		*doubted = addresses->doubted[--addresses->doubted_count];
	if (found) {
		struct network *old = &addresses->networks[found - addresses->items];

		addresses->changed |= !is_same(old, network);
		*old = *network;
		return;
	}
	if (pg_vector_grow(&addresses->items, addresses->count, &addresses->room,
			   sizeof(*addresses->items)) ||
	    pg_vector_grow(&addresses->networks, addresses->count, &addresses->network_room,
			   sizeof(*addresses->networks))) {
		pg_fail(&err, -ENOMEM, "not enough memory for an own address");
		warn(addresses->host, &err);
		return;
	}
	addresses->networks[addresses->count] = *network;
	addresses->items[addresses->count++] = *addr;
	addresses->changed = true;
	pg_homes_host_changed(addresses->host, addr);
}

static void drop(struct pg_addresses *addresses, const struct pg_addr *addr)
{
	struct pg_addr *found = find(addresses, addr);
	const struct pg_addr gone = *addr;

	if (!found)
		return;
	addresses->count--;
	addresses->networks[found - addresses->items] = addresses->networks[addresses->count];
	*found = addresses->items[addresses->count];
	addresses->changed = true;
	pg_homes_host_changed(addresses->host, &gone);
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

static int handle_message(const struct nlmsghdr *message, void *userdata)
{
	struct pg_addresses *addresses = userdata;
	struct pg_device_address address;

	if ((message->nlmsg_type != RTM_NEWADDR && message->nlmsg_type != RTM_DELADDR) ||
	    !pg_device_address_read(message, &address))
		return MNL_CB_OK;
	if (message->nlmsg_type == RTM_DELADDR) {
		drop(addresses, &address.addr);
		addresses->dropped = true;
		return MNL_CB_OK;
	}
	add(addresses, &address.addr, &(struct network){address.network, address.broadcast});
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
	pg_autofree char *buffer = malloc(PG_NETLINK_DUMP_BYTES);
	bool again = false;
	ssize_t got;
	int ran, error;

	if (!buffer)
		return pg_fail(err, -ENOMEM, "not enough memory to read addresses");
	for (;;) {
		got = mnl_socket_recvfrom(addresses->socket, buffer, PG_NETLINK_DUMP_BYTES);
		if (got < 0 && errno == ENOBUFS) {
			error = doubt(addresses, err);
			return error ? error : request_dump(addresses, err);
		}
		if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
			if (again || !addresses->dropped)
				return again ? request_dump(addresses, err) : 0;
			addresses->dropped = false;
			error = request_dump(addresses, err);
			if (error)
				return error;
			continue;
		}
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

static struct pg_addr last_of(const struct pg_prefix *prefix)
{
	uint32_t hosts = prefix->length ? ~(uint32_t)0 >> prefix->length : ~(uint32_t)0;

	return pg_addr_from_v4(pg_addr_to_v4(&prefix->addr) | htonl(hosts));
}

/* The addresses of a network that the host receives at besides its own. A network of one or two
 * addresses has none. */
static size_t list_shared(const struct network *network, struct pg_addr shared[static SHARED_MAX])
{
	const struct pg_prefix *prefix = &network->prefix;
	const struct pg_addr none = {};
	size_t count = 0;

	if (pg_addr_compare(&network->broadcast, &none) != 0)
		shared[count++] = network->broadcast;
	if (prefix->length >= (prefix->v4 ? 31 : 127))
		return count;
	/* The router of an IPv6 network; of an IPv4 network all of it, before Linux 5.14. */
	shared[count++] = prefix->addr;
	if (prefix->v4)
		shared[count++] = last_of(prefix);
	return count;
}

static int limit_ports(const struct pg_addresses *addresses, struct pg_error *err)
{
	pg_autofree struct pg_addr *all =
		reallocarray(NULL, addresses->count + 1, (1 + SHARED_MAX) * sizeof(*all));
	size_t count = addresses->count;

	if (!all)
		return pg_fail(err, -ENOMEM, "not enough memory for the host's addresses");
	for (size_t i = 0; i < addresses->count; i++)
		all[i] = addresses->items[i];
	for (size_t i = 0; i < addresses->count; i++)
		count += list_shared(&addresses->networks[i], &all[count]);
	return pg_host_addresses_set(addresses->host->kernel, all, count, err);
}

static int process_addresses(struct pg_addresses *addresses, struct pg_error *err)
{
	int error = read_messages(addresses, err);

	if (error || !addresses->changed)
		return error;
	addresses->changed = false;
	if (!addresses->host->limit_ports)
		return 0;
	return limit_ports(addresses, err);
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

bool pg_addresses_have(const struct pg_addresses *addresses, const struct pg_addr *addr)
{
	return find(addresses, addr);
}

const struct pg_addr *pg_addresses_list(const struct pg_addresses *addresses, size_t *ret_count)
{
	*ret_count = addresses->count;
	return addresses->items;
}

/* As pg_decide_host() judges. */
bool pg_addresses_may_receive(const struct pg_addresses *addresses, const struct pg_addr *addr)
{
	struct pg_addr shared[SHARED_MAX];

	if (pg_addr_is_loopback(addr) || pg_addr_is_multicast(addr) || find(addresses, addr))
		return true;
	for (size_t i = 0; i < addresses->count; i++)
		if (find_in(shared, list_shared(&addresses->networks[i], shared), addr))
			return true;
	return false;
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
	free(addresses->networks);
	free(addresses->doubted);
	free(addresses);
}
