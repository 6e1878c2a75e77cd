/* SPDX-License-Identifier: Apache-2.0 */
/* Each map type that bpf/ uses, by making one. */
#include "kernel/probe_internal.h"

#include <errno.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>

#include <phasegate/abi/event.h>
#include <phasegate/abi/header.h>
#include <phasegate/abi/set.h>

static int make_plain(enum bpf_map_type type, uint32_t key, uint32_t value, uint32_t entries,
		      uint32_t flags)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = flags);
	int fd = bpf_map_create(type, "pg_probe", key, value, entries, &options);

	return fd < 0 ? -errno : fd;
}

static int make_hash(void)
{
	return make_plain(BPF_MAP_TYPE_HASH, sizeof(struct pg_addr), 1, 1, BPF_F_NO_PREALLOC);
}

/* Of any length in an array of maps, and mapped: since Linux 5.10. */
static int make_set(void)
{
	return make_plain(BPF_MAP_TYPE_ARRAY, sizeof(uint32_t), sizeof(struct pg_set_node), 1,
			  BPF_F_MMAPABLE | BPF_F_INNER_MAP);
}

static int make_array_of_maps(void)
{
	LIBBPF_OPTS(bpf_map_create_opts, options);
	pg_autoclose int inner = make_hash();
	int fd;

	if (inner < 0)
		return inner;
	options.inner_map_fd = (uint32_t)inner;
	fd = bpf_map_create(BPF_MAP_TYPE_ARRAY_OF_MAPS, "pg_probe", sizeof(uint32_t),
			    sizeof(uint32_t), PG_SLOT_MAX, &options);
	return fd < 0 ? -errno : fd;
}

/* Keyed by the cgroup id alone, not by hook: since Linux 5.9. */
static int make_cgroup_storage(void)
{
	return make_plain(BPF_MAP_TYPE_CGROUP_STORAGE, sizeof(uint64_t), sizeof(struct pg_header),
			  0, 0);
}

static int make_percpu_cgroup_storage(void)
{
	return make_plain(BPF_MAP_TYPE_PERCPU_CGROUP_STORAGE, sizeof(uint64_t), sizeof(uint64_t), 0,
			  0);
}

/* The kernel wants to know the types of key and value. */
static int make_storage(uint32_t flags)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = flags);
	struct btf *btf = btf__new_empty();
	int key, value, fd = -1, r = 0;

	if (!btf)
		return -errno;
	key = btf__add_int(btf, "int", sizeof(int), BTF_INT_SIGNED);
	value = btf__add_int(btf, "unsigned long long", sizeof(uint64_t), 0);
	if (key < 0 || value < 0) {
		r = -ENOMEM;
	} else {
		r = btf__load_into_kernel(btf);
	}
	if (r == 0) {
		options.btf_fd = (uint32_t)btf__fd(btf);
		options.btf_key_type_id = (uint32_t)key;
		options.btf_value_type_id = (uint32_t)value;
		fd = bpf_map_create(BPF_MAP_TYPE_SK_STORAGE, "pg_probe", sizeof(int),
				    sizeof(uint64_t), 0, &options);
		r = fd < 0 ? -errno : 0;
	}
	btf__free(btf);
	return r < 0 ? r : fd;
}

static int make_sk_storage(void)
{
	return make_storage(BPF_F_NO_PREALLOC);
}

/* Accepted sockets inherit the value of the one that listens. */
static int make_sk_storage_clone(void)
{
	return make_storage(BPF_F_NO_PREALLOC | BPF_F_CLONE);
}

static int make_ringbuf(void)
{
	return make_plain(BPF_MAP_TYPE_RINGBUF, 0, 0, PG_EVENT_RING_BYTES, 0);
}

void pg_probe_maps(struct pg_probe *probe)
{
	static const struct {
		const char *name, *since;
		int (*make)(void);
	} maps[] = {
		{"map.hash", "3.19", make_hash},
		{"map.inner_array", "5.10", make_set},
		{"map.array_of_maps", "4.12", make_array_of_maps},
		{"map.cgroup_storage", "5.9", make_cgroup_storage},
		{"map.percpu_cgroup_storage", "5.9", make_percpu_cgroup_storage},
		{"map.sk_storage", "5.2", make_sk_storage},
		{"map.sk_storage_clone", "5.4", make_sk_storage_clone},
		{"map.ringbuf", "5.8", make_ringbuf},
	};

	for (size_t i = 0; i < PG_ARRAY_SIZE(maps); i++) {
		struct pg_probe_report report = {.name = maps[i].name};
		pg_autoclose int fd = maps[i].make();

		if (fd >= 0) {
			pg_probe_found(&report, "created");
		} else {
			pg_probe_found(&report, "cannot be created: %s", strerror(-fd));
			pg_probe_lacks(&report, PG_PROBE_FAILED,
				       fd == -EPERM ? "run as root; before Linux 5.11 also raise "
						      "RLIMIT_MEMLOCK (kernel needed: %s)"
						    : "use Linux %s or newer with "
						      "CONFIG_BPF_SYSCALL and CONFIG_CGROUP_BPF",
				       maps[i].since);
		}
		pg_probe_emit(probe, &report);
	}
}
