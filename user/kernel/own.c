/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of the Environments' own network namespaces, and the groups that they make a kernel
 * join. */
#include "kernel_internal.h"

#include <arpa/inet.h>
#include <errno.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "net/addr.h"

static int own_fd(const struct pg_kernel *kernel)
{
	return bpf_map__fd(kernel->skeleton->maps.pg_own);
}

static int groups_fd(const struct pg_kernel *kernel)
{
	return bpf_map__fd(kernel->skeleton->maps.pg_own_groups);
}

bool pg_own_group(const struct pg_own_key *address, struct pg_own_key *ret_group)
{
	if (pg_addr_is_v4(&address->addr))
		return false;
	*ret_group = (struct pg_own_key){.env_id = address->env_id};
	ret_group->addr.word[0] = htonl(0xff020000);
	ret_group->addr.word[2] = htonl(1);
	ret_group->addr.word[3] = address->addr.word[3] | htonl(0xff000000);
	return true;
}

/* Of the addresses that have a group. */
static void count_group(struct pg_kernel *kernel, const struct pg_own_key *address, int difference)
{
	struct pg_own_key group;
	__u32 count = 0;

	if (!pg_own_group(address, &group))
		return;
	(void)bpf_map_lookup_elem(groups_fd(kernel), &group, &count);
	if (!count && difference < 0)
		return;
	count += (__u32)difference;
	/* Without room its reports are denied, which bridges that listen to them may mind. */
	if (count)
		bpf_map_update_elem(groups_fd(kernel), &group, &count, BPF_ANY);
	else
		bpf_map_delete_elem(groups_fd(kernel), &group);
}

int pg_own_add(struct pg_kernel *kernel, uint64_t env_id, const struct pg_addr *addr,
	       uint64_t netns, struct pg_error *err)
{
	const struct pg_own_key key = {.env_id = env_id, .addr = *addr};
	const pg_own_value value = netns;
	char text[PG_ADDR_TEXT];
	int error = pg_own_book_add(&kernel->own, env_id, addr);

	if (error)
		return pg_fail(err, error, "not enough memory for own addresses");
	if (!bpf_map_update_elem(own_fd(kernel), &key, &value, BPF_NOEXIST)) {
		count_group(kernel, &key, 1);
		return 0;
	}
	if (errno == EEXIST && !bpf_map_update_elem(own_fd(kernel), &key, &value, BPF_EXIST))
		return 0;
	error = -errno;
	if (!pg_own_has(kernel, env_id, addr))
		pg_own_book_remove(&kernel->own, env_id, addr);
	return pg_fail_errno(err, error, "recording the Environment's own address %s",
			     pg_addr_format(addr, text));
}

void pg_own_remove(struct pg_kernel *kernel, uint64_t env_id, const struct pg_addr *addr)
{
	const struct pg_own_key key = {.env_id = env_id, .addr = *addr};

	/* Keeps it in the book if it stays: it is tried again when the Environment ends. */
	if (!bpf_map_delete_elem(own_fd(kernel), &key))
		count_group(kernel, &key, -1);
	else if (errno != ENOENT)
		return;
	pg_own_book_remove(&kernel->own, env_id, addr);
}

bool pg_own_has(struct pg_kernel *kernel, uint64_t env_id, const struct pg_addr *addr)
{
	const struct pg_own_key key = {.env_id = env_id, .addr = *addr};
	pg_own_value value;

	return !bpf_map_lookup_elem(own_fd(kernel), &key, &value);
}

static bool is_among(const struct pg_addr *addrs, size_t count, const struct pg_addr *addr)
{
	for (size_t i = 0; i < count; i++)
		if (!pg_addr_compare(&addrs[i], addr))
			return true;
	return false;
}

void pg_own_retain(struct pg_kernel *kernel, uint64_t env_id, const struct pg_addr *addrs,
		   size_t count)
{
	const struct pg_own_list *list = pg_own_book_find(&kernel->own, env_id);

	/* From the end: the last one takes the place of one that goes, and the list goes with it.
	 */
	for (size_t i = list ? list->count : 0; i > 0; i--) {
		const struct pg_addr addr = list->items[i - 1];

		if (!is_among(addrs, count, &addr))
			pg_own_remove(kernel, env_id, &addr);
	}
}

void pg_own_clear(struct pg_kernel *kernel, uint64_t env_id)
{
	pg_own_retain(kernel, env_id, NULL, 0);
}

int pg_own_read(struct pg_kernel *kernel, struct pg_error *err)
{
	int error = pg_own_book_read(&kernel->own, own_fd(kernel), groups_fd(kernel));

	return error ? pg_fail(err, error, "not enough memory for own addresses") : 0;
}
