/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to user/environment/: network interfaces by rtnetlink(7), those of this process's
 * network namespace and those of another by the id that this one knows it by (nsid).
 */
#pragma once

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "net/prefix.h"

struct mnl_socket;
struct nlmsghdr;

#define PG_NSID_NONE (-1)

/* What the kernel fills at most in one part of a dump (include/linux/netlink.h). */
#define PG_NETLINK_DUMP_BYTES 32768

/* Octets of a kind, as "veth". */
#define PG_DEVICE_KIND 16

/* A message about an interface. */
struct pg_device {
	unsigned int ifindex;
	char name[IF_NAMESIZE];
	char kind[PG_DEVICE_KIND]; /* empty: a device of the host's, or loopback */
	bool loopback;
	bool deleted;
	/* The other end of a veth, or what the device is on. */
	unsigned int peer;
	uint64_t station; /* its hardware address as abi/link.h has it; 0: none, or no Ethernet */
	unsigned int master; /* the bridge that it is a port of; 0: none */
	int peer_nsid;	     /* PG_NSID_NONE: in the same namespace */
	int moved_nsid;	     /* of one that is deleted: where it went; PG_NSID_NONE: nowhere */
};

static inline bool pg_device_is(const struct pg_device *device, const char *kind)
{
	return !__builtin_strcmp(device->kind, kind);
}

typedef void (*pg_device_visit)(void *userdata, const struct pg_device *device);

/* events: it hears of changes, too. It does not block. */
int pg_devices_open(bool events, struct mnl_socket **ret_socket,
		    struct pg_error *err) PG_MUST_CHECK;

/* The answers are there when these return; pg_devices_read() hands them over. */
int pg_devices_ask_veths(struct mnl_socket *socket, struct pg_error *err) PG_MUST_CHECK;
int pg_devices_ask_one(struct mnl_socket *socket, unsigned int ifindex,
		       struct pg_error *err) PG_MUST_CHECK;
/* All of another namespace. */
int pg_devices_ask_all(struct mnl_socket *socket, int nsid, struct pg_error *err) PG_MUST_CHECK;

struct pg_device_address {
	unsigned int ifindex;
	struct pg_addr addr;
	struct pg_prefix network; /* of the peer, if there is one */
	struct pg_addr broadcast; /* unspecified: none was given */
};
/* What a message about an address says; false: nothing of use. */
bool pg_device_address_read(const struct nlmsghdr *message, struct pg_device_address *ret_address);

/* Addresses of this namespace, of each interface. */
typedef void (*pg_device_address_visit)(void *userdata, const struct pg_device_address *address);
int pg_devices_addresses(struct mnl_socket *socket, pg_device_address_visit visit, void *userdata,
			 struct pg_error *err) PG_MUST_CHECK;
/* The routes of another namespace: routers, and networks that none is needed for. */
struct pg_device_routes {
	void (*router)(void *userdata, const struct pg_addr *addr);
	void (*network)(void *userdata, const struct pg_prefix *network);
	void *userdata;
};
int pg_devices_routes(int netns_fd, const struct pg_device_routes *visits,
		      struct pg_error *err) PG_MUST_CHECK;
/* Of an interface there: where its neighbours are is asked anew, but for what somebody has set. */
int pg_devices_forget_neighbours(int netns_fd, unsigned int ifindex,
				 struct pg_error *err) PG_MUST_CHECK;

/* Who is told so often that a list is not whole asks again later. */
#define PG_DEVICES_TRIES 10

enum pg_devices_read {
	PG_DEVICES_READ,  /* all that was there */
	PG_DEVICES_ENDED, /* and a whole list was */
	PG_DEVICES_AGAIN, /* something was lost, or changed within a list: ask for it again */
};

/* Hands over what is there. What was asked for and is not there any more is no error. */
int pg_devices_read(struct mnl_socket *socket, pg_device_visit visit, void *userdata,
		    enum pg_devices_read *ret_how, struct pg_error *err) PG_MUST_CHECK;
