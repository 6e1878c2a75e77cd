/* SPDX-License-Identifier: Apache-2.0 */
/* By which device an address is reached. */
#pragma once

#include <stdbool.h>

#include "base/cleanup.h"
#include "net/addr.h"

/*
 * Lets the socket, whose namespace is that of the descriptor, receive by the device only by which
 * the address is reached now. So what a process inside puts into lo in a server's name does not
 * come to it.
 */
int pg_device_bind(int fd, int netns_fd, const struct pg_addr *addr) PG_MUST_CHECK;

/* Whether it is an address of the namespace itself; also if that cannot be told. */
bool pg_device_may_be_inside(int netns_fd, const struct pg_addr *addr);

/* Whether the address is on a network that the namespace is joined to: no router is needed, nor is
 * it what is left when no other route leads there. Not a broadcast address, and none of the
 * caller's namespace, as the host's on a container's network. */
bool pg_device_is_near(int netns_fd, const struct pg_addr *addr);
