/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a member may have sent datagrams before it was confined: the answer to one must not pass
 * for something that came first, and where they went nobody knows. The kernel counts what each
 * network namespace has sent: in one that a runtime has just made that is neighbour discovery and
 * reports of groups, ICMPv6 that no socket sends. Frames of packet sockets are not in these counts;
 * of segments it is enough that somebody could have sent some.
 */
#include "host_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/netns.h"

#define COUNTS_MAX (64UL * 1024)

/* "Ip: Forwarding DefaultTTL ... OutRequests ..." and, in the next line, "Ip: 2 64 ... 7 ...". */
static uint64_t column(const char *text, const char *protocol, const char *name)
{
	const char *names = strstr(text, protocol), *values;
	const char *wanted = names ? strstr(names, name) : NULL;
	size_t number = 0;

	values = names ? strchr(names, '\n') : NULL;
	if (!wanted || !values || wanted > values)
		return 0;
	for (const char *at = names; at <= wanted; at++)
		number += *at == ' ';
	for (values++; number && *values && *values != '\n'; values++)
		number -= *values == ' ';
	return number ? 0 : strtoull(values, NULL, 10);
}

/* "Ip6OutRequests                  	12" */
static uint64_t row(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

/* Since Linux 6.8 what raw sockets send is among what was transmitted, and not what was requested.
 */
bool pg_counts_have_sent(const char *v4, const char *v6)
{
	const uint64_t icmp6 = row(v6, "\nIcmp6OutMsgs");

	return column(v4, "Ip:", " OutRequests") || column(v4, "Ip:", " OutTransmits") ||
	       row(v6, "\nIp6OutRequests") > icmp6 || row(v6, "\nIp6OutTransmits") > icmp6;
}

static int read_counts(const char *path, char **ret_text, struct pg_error *err)
{
	size_t size;
	int error = pg_file_read(path, COUNTS_MAX, ret_text, &size, err);

	/* Without IPv6 there is no such file. */
	if (error != -ENOENT)
		return error;
	*ret_text = strdup("");
	return *ret_text ? 0 : pg_fail(err, -ENOMEM, "not enough memory for counts");
}

static int has_sent(int netns_fd, bool *ret_sent, struct pg_error *err)
{
	pg_autofree char *v4 = NULL, *v6 = NULL;
	PG_CLEANUP(pg_netns_leave) int back = -1;
	int error = pg_netns_enter(netns_fd, &back, err);

	if (!error)
		error = read_counts("/proc/thread-self/net/snmp", &v4, err);
	if (!error)
		error = read_counts("/proc/thread-self/net/snmp6", &v6, err);
	if (!error)
		*ret_sent = pg_counts_have_sent(v4, v6);
	return error;
}

int pg_before_find(const struct pg_environment *environment, size_t index, struct pg_before *before,
		   struct pg_error *err)
{
	pg_automembers struct pg_members members = {};
	int error = pg_members_add(&members, index, environment->places[index].fd);

	if (error)
		pg_fail_errno(err, error, "looking for namespaces");
	before->lived |= members.namespace_count != 0;
	for (size_t i = 0; i < members.namespace_count && !error && !before->sent; i++)
		error = has_sent(members.namespaces[i].fd, &before->sent, err);
	return error ? pg_error_prefix(err, "what was sent before by %s",
				       pg_place_path(environment, index))
		     : 0;
}
