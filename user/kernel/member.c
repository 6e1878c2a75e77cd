/* SPDX-License-Identifier: Apache-2.0 */
/* Members of Environments that have several (abi/member.h), and what they had before. */
#include "kernel_internal.h"

#include <errno.h>
#include <inttypes.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <phasegate/abi/member.h>

#include "net/addr.h"

static int members_fd(const struct pg_kernel *kernel)
{
	return bpf_map__fd(kernel->skeleton->maps.pg_members);
}

/* What has been counted there stays. */
static int put(struct pg_kernel *kernel, uint64_t cgroup_id, const struct pg_member *member,
	       struct pg_error *err)
{
	struct pg_member before = {}, now = *member;

	(void)!bpf_map_lookup_elem(members_fd(kernel), &cgroup_id, &before);
	now.exec_second = before.exec_second;
	now.exec_reported = before.exec_reported;
	now.exec_suppressed = before.exec_suppressed;
	if (bpf_map_update_elem(members_fd(kernel), &cgroup_id, &now, BPF_ANY))
		return pg_fail_errno(err, -errno, "recording cgroup %" PRIu64 " as a member",
				     cgroup_id);
	return 0;
}

static bool has_level(const struct pg_member *member)
{
	return member->level && member->level <= PG_MEMBER_LEVEL_MAX;
}

int pg_member_add(struct pg_kernel *kernel, uint64_t cgroup_id, const struct pg_member *member,
		  struct pg_error *err)
{
	if (!has_level(member))
		return pg_fail(err, -EDOM,
			       "a cgroup at depth %u cannot be one of several members: %d is the"
			       " deepest",
			       member->level, PG_MEMBER_LEVEL_MAX);
	return put(kernel, cgroup_id, member, err);
}

int pg_member_add_alone(struct pg_kernel *kernel, uint64_t cgroup_id, struct pg_member *member,
			struct pg_error *err)
{
	member->alone = cgroup_id == member->env_id;
	return has_level(member) ? put(kernel, cgroup_id, member, err) : 0;
}

uint64_t pg_member_suppressed(struct pg_kernel *kernel, uint64_t cgroup_id)
{
	struct pg_member member;

	return bpf_map_lookup_elem(members_fd(kernel), &cgroup_id, &member)
		       ? 0
		       : member.exec_suppressed;
}

void pg_member_remove(struct pg_kernel *kernel, uint64_t cgroup_id)
{
	bpf_map_delete_elem(members_fd(kernel), &cgroup_id);
}

int pg_socket_mark(struct pg_kernel *kernel, int socket_fd, const struct pg_mark *mark)
{
	if (bpf_map_update_elem(pg_kernel_mark_map_fd(kernel), &socket_fd, mark, BPF_NOEXIST) &&
	    errno != EEXIST)
		return -errno;
	return 0;
}

int pg_agent_socket_mark(struct pg_kernel *kernel, int socket_fd, uint64_t env_id,
			 struct pg_error *err)
{
	const struct pg_mark mark = {.kind = PG_MARK_AGENT, .owner = env_id};

	if (bpf_map_update_elem(pg_kernel_mark_map_fd(kernel), &socket_fd, &mark, BPF_ANY))
		return pg_fail_errno(err, -errno, "marking a socket of its own");
	return 0;
}

static int addresses_fd(const struct pg_kernel *kernel)
{
	return bpf_map__fd(kernel->skeleton->maps.pg_member_addresses);
}

int pg_member_address_add(struct pg_kernel *kernel, uint64_t env_id, const struct pg_addr *addr,
			  struct pg_error *err)
{
	const struct pg_member_address key = {.env_id = env_id, .addr = *addr};
	const uint8_t present = 1;
	char text[PG_ADDR_TEXT];

	if (bpf_map_update_elem(addresses_fd(kernel), &key, &present, BPF_ANY))
		return pg_fail_errno(err, -errno, "recording the address %s of a member",
				     pg_addr_format(addr, text));
	return 0;
}

void pg_member_address_remove(struct pg_kernel *kernel, uint64_t env_id, const struct pg_addr *addr)
{
	const struct pg_member_address key = {.env_id = env_id, .addr = *addr};

	bpf_map_delete_elem(addresses_fd(kernel), &key);
}

void pg_members_forget(struct pg_kernel *kernel, uint64_t env_id)
{
	uint64_t key, next, *previous = NULL;
	struct pg_member member;

	pg_keys_forget(addresses_fd(kernel), sizeof(struct pg_member_address), PG_MEMBERS_TOTAL_MAX,
		       env_id);
	if (!bpf_map_lookup_elem(members_fd(kernel), &env_id, &member) && member.alone) {
		bpf_map_delete_elem(members_fd(kernel), &env_id);
		return;
	}
	/* A key deleted meanwhile makes the walk start again; the table's size bounds it. */
	for (size_t i = 0; i < 2UL * PG_MEMBERS_TOTAL_MAX; i++) {
		if (bpf_map_get_next_key(members_fd(kernel), previous, &next))
			break;
		if (!bpf_map_lookup_elem(members_fd(kernel), &next, &member) &&
		    member.env_id == env_id && !bpf_map_delete_elem(members_fd(kernel), &next))
			continue;
		key = next;
		previous = &key;
	}
}
