/* SPDX-License-Identifier: Apache-2.0 */
/* Files that say whom to ask (resolv.conf(5)) and what needs no asking (hosts(5)). */
#pragma once

#include <stddef.h>

#include "base/error.h"
#include "net/addr.h"

/* Nameservers of a resolv.conf that are used; glibc's MAXNS. */
#define PG_NAMESERVERS_MAX 3

/* Reads at most max nameservers of the file (NULL: /etc/resolv.conf). -ENOENT if it has none. */
int pg_resolv_conf_read(const char *path, struct pg_endpoint *ret_servers, size_t max,
			size_t *ret_count, struct pg_error *err) PG_MUST_CHECK;

/*
 * Calls back with each name and alias of the hosts file, in lower case without final dot, in the
 * order of the file. Lines without a numeric address and names that are none are passed over. A
 * negative errno of the sink ends the reading and is returned.
 */
typedef int (*pg_hosts_sink)(void *userdata, const char *name, const struct pg_addr *addr);
int pg_hosts_read(const char *path, pg_hosts_sink sink, void *userdata,
		  struct pg_error *err) PG_MUST_CHECK;
