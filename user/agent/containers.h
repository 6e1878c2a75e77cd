/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members that are containers.
 *
 *   containers.c        name or id -> cgroup; what is shown of it
 *   container_warn.c    what its maker should know
 *   container_share.c   who else is in its network namespace
 *   container_names.c   its resolv.conf and hosts files
 *   container_addresses.c its addresses, for the other members
 */
#pragma once

#include "container/container.h"
#include "members.h"

struct pg_member_container {
	struct pg_container container;
	/* The container whose network namespace it uses, if that runs (.id NULL: none). */
	struct pg_container owner;
	bool net_admin; /* may change its network */
};

void pg_member_container_free(struct pg_member_container *member);

/*
 * The running container of the name in the runtime (NULL: in any), and its cgroup, which is its
 * alone. -EINVAL or -ENOMEM: the error is in reply.
 */
int pg_member_of_container(const struct pg_agent *agent, const struct pg_caller *caller,
			   const char *runtime, const char *name, const char *object,
			   struct pg_member_list *list, char **ret_path,
			   struct pg_member_container **ret_member,
			   struct pg_reply *reply) PG_MUST_CHECK;
/* The members of an object that show it. */
void pg_member_container_describe(const struct pg_member_container *member,
				  struct pg_json_writer *json);
/* The container whose network it uses: its own, or the owner of the one that it shares. */
const struct pg_container *pg_member_container_network(const struct pg_member_container *member);

/* Of all members: warnings of the operation at hand. */
void pg_containers_warn(struct pg_agent *agent, const struct pg_member_list *list,
			const struct pg_policy *policy);

/*
 * The nameservers of their resolv.conf that a runtime has put there. What a container has written
 * into the file itself is not asked.
 */
void pg_containers_resolvers(struct pg_agent *agent, const struct pg_member_list *list,
			     struct pg_endpoint *servers, size_t max, size_t *ret_count);
/*
 * Their hosts files in one, which is closed by the caller: *ret_fd is -1 if there is none. One that
 * was written since the container was started may say what the container wants: then only the
 * names that its maker gave count.
 */
int pg_containers_hosts(struct pg_agent *agent, const struct pg_member_list *list, int *ret_fd,
			struct pg_error *err) PG_MUST_CHECK;

/* Addresses of members in networks that they share, each in a namespace of its own; at most max. */
size_t pg_containers_addresses(const struct pg_member_list *list,
			       struct pg_member_address_of *addresses, size_t max);
