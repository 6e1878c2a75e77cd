/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of the veth guard; its filters are in link_filter.c. */
#include "link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/clock.h"
#include "kernel_internal.h"
#include "net/addr.h"

static int links_fd(const struct pg_kernel *kernel)
{
	return bpf_map__fd(kernel->skeleton->maps.pg_links);
}

static int tables_fd(const struct pg_kernel *kernel)
{
	return bpf_map__fd(kernel->skeleton->maps.pg_link_tables);
}

static int neighbours_fd(const struct pg_kernel *kernel)
{
	return bpf_map__fd(kernel->skeleton->maps.pg_link_neighbours);
}

static int counts_fd(const struct pg_kernel *kernel)
{
	return bpf_map__fd(kernel->skeleton->maps.pg_link_counts);
}

static int hops_fd(const struct pg_kernel *kernel)
{
	return bpf_map__fd(kernel->skeleton->maps.pg_link_hops);
}

/* What programs have copied of any link is over. */
static int end_copies(const struct pg_kernel *kernel)
{
	const int fd = bpf_map__fd(kernel->skeleton->maps.pg_link_changes);
	const __u64 now = pg_boottime_ns();
	const __u32 first = 0;

	return bpf_map_update_elem(fd, &first, &now, BPF_ANY) ? -errno : 0;
}

/* Makes an element of zeros unless there is one. */
static int make_element(int map, const void *key, const void *zeros)
{
	return bpf_map_update_elem(map, key, zeros, BPF_NOEXIST) && errno != EEXIST ? -errno : 0;
}

int pg_link_put(struct pg_kernel *kernel, unsigned int ifindex, const struct pg_header *header,
		uint32_t flags, const struct pg_link_stations *stations, struct pg_error *err)
{
	static const struct pg_link_table no_answers;
	static const struct pg_link_neighbours nobody;
	static const struct pg_counters no_counts;
	const struct pg_link link = {
		.header = *header,
		.flags = flags,
		.stations = stations ? *stations : (struct pg_link_stations){},
	};
	const __u32 key = ifindex;
	int error = make_element(counts_fd(kernel), &header->env_id, &no_counts);

	if (!error)
		error = make_element(tables_fd(kernel), &header->env_id, &no_answers);
	if (!error)
		error = make_element(neighbours_fd(kernel), &header->env_id, &nobody);
	if (!error && bpf_map_update_elem(links_fd(kernel), &key, &link, BPF_ANY))
		error = -errno;
	if (!error)
		error = end_copies(kernel);
	if (error)
		return pg_fail_errno(err, error,
				     "entering the interface with index %u among at most %d veths"
				     " with a guard",
				     ifindex, PG_LINK_MAX);
	return 0;
}

/* The table is there, and programs may be writing to it. */
static int bar_in_place(struct pg_kernel *kernel, uint64_t env_id, uint32_t until,
			struct pg_error *err)
{
	static const char frame[64];
	struct __sk_buff context = {.cb = {(uint32_t)env_id, (uint32_t)(env_id >> 32), until}};
	LIBBPF_OPTS(bpf_test_run_opts, run, .data_in = frame, .data_size_in = sizeof(frame),
		    .ctx_in = &context, .ctx_size_in = sizeof(context), .repeat = 1);
	int error = pg_link_programs_load(kernel, err);

	if (error)
		return error;
	if (bpf_prog_test_run_opts(bpf_program__fd(kernel->links->progs.pg_link_bar_in), &run))
		return pg_fail_errno(err, -errno, "running the BPF program pg_link_bar_in");
	return run.retval == PG_LINK_BARRED
		       ? 0
		       : pg_fail(err, -ENOENT, "what links remember is not there any more");
}

int pg_link_bar(struct pg_kernel *kernel, uint64_t env_id, bool datagrams, struct pg_error *err)
{
	const uint32_t until =
		datagrams ? (uint32_t)((pg_boottime_ns() + PG_FLOW_IDLE_NS) / PG_NSEC_PER_SEC) : 0;
	pg_autofree struct pg_link_table *table = calloc(1, sizeof(*table));

	if (!table)
		return pg_fail(err, -ENOMEM, "not enough memory for what links remember");
	table->asked_any = 1;
	table->barred = until;
	if (!bpf_map_update_elem(tables_fd(kernel), &env_id, table, BPF_NOEXIST))
		return 0;
	if (errno == EEXIST)
		return bar_in_place(kernel, env_id, until, err);
	return pg_fail_errno(err, -errno,
			     "barring what comes in by links of one of at most %d Environments",
			     PG_ENVIRONMENT_MAX);
}

int pg_link_read(struct pg_kernel *kernel, unsigned int ifindex, struct pg_link *ret_link,
		 struct pg_error *err)
{
	const __u32 key = ifindex;
	struct pg_link link;

	if (!bpf_map_lookup_elem(links_fd(kernel), &key, &link)) {
		*ret_link = link;
		return 0;
	}
	if (errno == ENOENT)
		return -ENOENT;
	return pg_fail_errno(err, -errno, "reading what the interface with index %u is judged by",
			     ifindex);
}

void pg_link_forget(struct pg_kernel *kernel, unsigned int ifindex)
{
	const __u32 key = ifindex;

	bpf_map_delete_elem(links_fd(kernel), &key);
	end_copies(kernel);
}

bool pg_link_next(struct pg_kernel *kernel, unsigned int *ifindex)
{
	const __u32 key = *ifindex;
	__u32 next;

	if (bpf_map_get_next_key(links_fd(kernel), key ? &key : NULL, &next))
		return false;
	*ifindex = next;
	return true;
}

int pg_link_hop_add(struct pg_kernel *kernel, uint64_t env_id, const struct pg_addr *addr,
		    uint8_t kind, struct pg_error *err)
{
	const struct pg_own_key key = {.env_id = env_id, .addr = *addr};
	char text[PG_ADDR_TEXT];

	if (bpf_map_update_elem(hops_fd(kernel), &key, &kind, BPF_ANY))
		return pg_fail_errno(err, -errno, "recording the next hop %s",
				     pg_addr_format(addr, text));
	return 0;
}

void pg_link_hop_remove(struct pg_kernel *kernel, uint64_t env_id, const struct pg_addr *addr)
{
	const struct pg_own_key key = {.env_id = env_id, .addr = *addr};

	bpf_map_delete_elem(hops_fd(kernel), &key);
}

int pg_link_counters_read(struct pg_kernel *kernel, uint64_t env_id,
			  struct pg_counters *ret_counters, struct pg_error *err)
{
	struct pg_counters counters;

	if (bpf_map_lookup_elem(counts_fd(kernel), &env_id, &counters)) {
		if (errno != ENOENT)
			return pg_fail_errno(err, -errno, "reading what veths' guards denied");
		memset(&counters, 0, sizeof(counters));
	}
	*ret_counters = counters;
	return 0;
}

void pg_link_environment_forget(struct pg_kernel *kernel, uint64_t env_id)
{
	bpf_map_delete_elem(tables_fd(kernel), &env_id);
	bpf_map_delete_elem(neighbours_fd(kernel), &env_id);
	bpf_map_delete_elem(counts_fd(kernel), &env_id);
	pg_keys_forget(hops_fd(kernel), sizeof(struct pg_own_key), PG_LINK_HOP_MAX, env_id);
}
