/* SPDX-License-Identifier: Apache-2.0 */
/* DNS in the path: whose listener a socket is, and where one is. */
#include "kernel_internal.h"

#include <errno.h>
#include <sys/socket.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <phasegate/abi/dns.h>

int pg_dns_socket_hide(int socket_fd, struct pg_error *err)
{
	const uint32_t mark = PG_HIDDEN_MARK;

	if (setsockopt(socket_fd, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)))
		return pg_fail_errno(err, -errno,
				     "marking a socket, which needs CAP_NET_ADMIN in its network"
				     " namespace");
	return 0;
}

int pg_dns_listener_mark(struct pg_kernel *kernel, int socket_fd, uint64_t env_id,
			 struct pg_error *err)
{
	const struct pg_dns_listener listener = {.env_id = env_id};
	const int map = bpf_map__fd(kernel->skeleton->maps.pg_dns_listeners);

	if (bpf_map_update_elem(map, &socket_fd, &listener, BPF_ANY))
		return pg_fail_errno(err, -errno, "marking a socket of the DNS listener");
	return pg_dns_socket_hide(socket_fd, err);
}

void pg_dns_served_add(struct pg_kernel *kernel, uint64_t env_id, uint64_t netns_cookie)
{
	const struct pg_dns_served_key key = {.env_id = env_id, .netns = netns_cookie};
	const __u8 present = 1;

	bpf_map_update_elem(bpf_map__fd(kernel->skeleton->maps.pg_dns_served), &key, &present,
			    BPF_ANY);
}

void pg_dns_forget(struct pg_kernel *kernel, uint64_t env_id)
{
	pg_keys_forget(bpf_map__fd(kernel->skeleton->maps.pg_dns_served),
		       sizeof(struct pg_dns_served_key), PG_DNS_SERVED_MAX, env_id);
}
