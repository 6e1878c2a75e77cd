// SPDX-License-Identifier: Apache-2.0
/*
 * The objects' maps, as the BPF compiler and the objects' type information have them, against the
 * layouts as this compiler has them; and which programs are in which object. Nothing is loaded, so
 * it needs no root.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include <phasegate/abi/begun.h>
#include <phasegate/abi/host_end.h>
#include <phasegate/abi/counter.h>
#include <phasegate/abi/dns.h>
#include <phasegate/abi/event.h>
#include <phasegate/abi/flow.h>
#include <phasegate/abi/header.h>
#include <phasegate/abi/hook.h>
#include <phasegate/abi/link.h>
#include <phasegate/abi/member.h>
#include <phasegate/abi/sent.h>
#include <phasegate/abi/set.h>
#include <phasegate/abi/state.h>

#include "check.h"
#include "links.skel.h"
#include "phasegate.skel.h"

struct layout {
	const char *map;
	enum bpf_map_type type;
	size_t key, value, entries;
	/* Types of the map's BTF; NULL where it has only sizes. */
	const char *key_type, *value_type;
	/* Of an outer map. */
	enum bpf_map_type inner_type;
	size_t inner_key, inner_value;
};

static const struct layout layouts[] = {
	{"pg_headers", BPF_MAP_TYPE_CGROUP_STORAGE, sizeof(__u64), sizeof(struct pg_header), 0,
	 "__u64", "pg_header", 0, 0, 0},
	{"pg_states", BPF_MAP_TYPE_ARRAY, sizeof(__u32), sizeof(struct pg_state),
	 PG_ENVIRONMENT_MAX, "__u32", "pg_state", 0, 0, 0},
	{"pg_slots", BPF_MAP_TYPE_ARRAY, sizeof(__u32), sizeof(struct pg_slot_use), PG_SLOT_MAX,
	 "__u32", "pg_slot_use", 0, 0, 0},
	{"pg_members", BPF_MAP_TYPE_HASH, sizeof(__u64), sizeof(struct pg_member),
	 PG_MEMBERS_TOTAL_MAX, "__u64", "pg_member", 0, 0, 0},
	{"pg_begun", BPF_MAP_TYPE_HASH, sizeof(__u64), sizeof(struct pg_begun), PG_BEGUN_MAX,
	 "__u64", "pg_begun", 0, 0, 0},
	{"pg_host_ends", BPF_MAP_TYPE_HASH, sizeof(struct pg_host_end_key),
	 sizeof(struct pg_host_end), PG_HOST_ENDS_MAX, "pg_host_end_key", "pg_host_end", 0, 0, 0},
	{"pg_member_addresses", BPF_MAP_TYPE_HASH, sizeof(struct pg_member_address), sizeof(__u8),
	 PG_MEMBERS_TOTAL_MAX, "pg_member_address", "__u8", 0, 0, 0},
	{"pg_host_addresses", BPF_MAP_TYPE_HASH, sizeof(struct pg_addr), sizeof(__u8),
	 PG_HOST_ADDRESS_MAX, "pg_addr", "__u8", 0, 0, 0},
	{"pg_host_ports", BPF_MAP_TYPE_HASH, sizeof(__be16), sizeof(__u8), PG_HOST_PORT_MAX,
	 "__be16", "__u8", 0, 0, 0},
	{"pg_event_budgets", BPF_MAP_TYPE_ARRAY, sizeof(__u32), sizeof(struct pg_event_budget),
	 PG_ENVIRONMENT_MAX, "__u32", "pg_event_budget", 0, 0, 0},
	{"pg_counts", BPF_MAP_TYPE_PERCPU_CGROUP_STORAGE, sizeof(__u64), sizeof(struct pg_counters),
	 0, "__u64", "pg_counters", 0, 0, 0},
	{"pg_sets", BPF_MAP_TYPE_ARRAY_OF_MAPS, 4, 4, PG_SLOT_MAX, "__u32", NULL,
	 BPF_MAP_TYPE_ARRAY, sizeof(__u32), sizeof(struct pg_set_node)},
	{"pg_learned_sets", BPF_MAP_TYPE_ARRAY_OF_MAPS, 4, 4, PG_SLOT_MAX, "__u32", NULL,
	 BPF_MAP_TYPE_HASH, sizeof(struct pg_addr), sizeof(struct pg_learned)},
	{"pg_own", BPF_MAP_TYPE_HASH, sizeof(struct pg_own_key), sizeof(pg_own_value), PG_OWN_MAX,
	 "pg_own_key", "pg_own_value", 0, 0, 0},
	{"pg_own_groups", BPF_MAP_TYPE_HASH, sizeof(struct pg_own_key), sizeof(__u32),
	 PG_OWN_GROUPS_MAX, "pg_own_key", "__u32", 0, 0, 0},
	{"pg_links", BPF_MAP_TYPE_HASH, sizeof(__u32), sizeof(struct pg_link), PG_LINK_MAX, "__u32",
	 "pg_link", 0, 0, 0},
	{"pg_link_changes", BPF_MAP_TYPE_ARRAY, sizeof(__u32), sizeof(__u64), 1, "__u32", "__u64",
	 0, 0, 0},
	{"pg_link_shorts", BPF_MAP_TYPE_PERCPU_ARRAY, sizeof(__u32),
	 sizeof(struct pg_link_short_places), 1, "__u32", "pg_link_short_places", 0, 0, 0},
	{"pg_link_tables", BPF_MAP_TYPE_HASH, sizeof(__u64), sizeof(struct pg_link_table),
	 PG_ENVIRONMENT_MAX, "__u64", "pg_link_table", 0, 0, 0},
	{"pg_link_neighbours", BPF_MAP_TYPE_HASH, sizeof(__u64), sizeof(struct pg_link_neighbours),
	 PG_ENVIRONMENT_MAX, "__u64", "pg_link_neighbours", 0, 0, 0},
	{"pg_link_counts", BPF_MAP_TYPE_HASH, sizeof(__u64), sizeof(struct pg_counters),
	 PG_ENVIRONMENT_MAX, "__u64", "pg_counters", 0, 0, 0},
	{"pg_link_hops", BPF_MAP_TYPE_HASH, sizeof(struct pg_own_key), sizeof(__u8),
	 PG_LINK_HOP_MAX, "pg_own_key", "__u8", 0, 0, 0},
	{"pg_link_runs", BPF_MAP_TYPE_PERCPU_ARRAY, sizeof(__u32), PG_LINK_RUN_BYTES, 1, NULL, NULL,
	 0, 0, 0},
	{"pg_link_seens", BPF_MAP_TYPE_PERCPU_ARRAY, sizeof(__u32),
	 sizeof(struct pg_link_seen_places), 1, "__u32", "pg_link_seen_places", 0, 0, 0},
	{"pg_sent_places", BPF_MAP_TYPE_ARRAY, sizeof(__u32), sizeof(struct pg_sent_place),
	 PG_SENT_MAX, "__u32", "pg_sent_place", 0, 0, 0},
	{"pg_flows", BPF_MAP_TYPE_HASH, sizeof(struct pg_flow_key), sizeof(struct pg_flow),
	 PG_FLOW_MAX, "pg_flow_key", "pg_flow", 0, 0, 0},
	{"pg_flow_counts", BPF_MAP_TYPE_ARRAY, sizeof(__u32), sizeof(struct pg_flow_count),
	 PG_ENVIRONMENT_MAX, "__u32", "pg_flow_count", 0, 0, 0},
	{"pg_flow_bars", BPF_MAP_TYPE_HASH, sizeof(__u64), sizeof(pg_flow_bar), PG_ENVIRONMENT_MAX,
	 "__u64", "pg_flow_bar", 0, 0, 0},
	{"pg_accepted", BPF_MAP_TYPE_ARRAY, sizeof(__u32), sizeof(struct pg_accepted),
	 PG_ACCEPTED_MAX, "__u32", "pg_accepted", 0, 0, 0},
	{"pg_marks", BPF_MAP_TYPE_SK_STORAGE, sizeof(int), sizeof(struct pg_mark), 0, "int",
	 "pg_mark", 0, 0, 0},
	{"pg_dns_sockets", BPF_MAP_TYPE_SK_STORAGE, sizeof(int), sizeof(struct pg_dns_socket), 0,
	 "int", "pg_dns_socket", 0, 0, 0},
	{"pg_dns_listeners", BPF_MAP_TYPE_SK_STORAGE, sizeof(int), sizeof(struct pg_dns_listener),
	 0, "int", "pg_dns_listener", 0, 0, 0},
	{"pg_dns_served", BPF_MAP_TYPE_HASH, sizeof(struct pg_dns_served_key), sizeof(__u8),
	 PG_DNS_SERVED_MAX, "pg_dns_served_key", "__u8", 0, 0, 0},
	{"pg_events", BPF_MAP_TYPE_RINGBUF, 0, 0, PG_EVENT_RING_BYTES, NULL, NULL, 0, 0, 0},
};
#define LAYOUTS (sizeof(layouts) / sizeof(layouts[0]))

/* Parts of them too. What only pointers point to has no type information, so it has its asserts. */
static const struct {
	const char *name;
	size_t size;
} structs[] = {
#define STRUCT(name) \
	{ \
#name, sizeof(struct name) \
	}
	STRUCT(pg_header),	   STRUCT(pg_phase_slot),   STRUCT(pg_endpoint),
	STRUCT(pg_addr),	   STRUCT(pg_counters),	    STRUCT(pg_flow_key),
	STRUCT(pg_dns_socket),	   STRUCT(pg_dns_listener), STRUCT(pg_dns_served_key),
	STRUCT(pg_flow),	   STRUCT(pg_mark),	    STRUCT(pg_own_key),
	STRUCT(pg_state),	   STRUCT(pg_member),	    STRUCT(pg_slot_use),
	STRUCT(pg_member_address), STRUCT(pg_event_budget), STRUCT(pg_flow_count),
	STRUCT(pg_link),	   STRUCT(pg_link_flow),    STRUCT(pg_link_peer),
	STRUCT(pg_link_ack),	   STRUCT(pg_link_network), STRUCT(pg_link_stations),
	STRUCT(pg_link_table),	   STRUCT(pg_accepted),	    STRUCT(pg_begun),
	STRUCT(pg_begun_device),   STRUCT(pg_host_end_key), STRUCT(pg_host_end),
#undef STRUCT
};

static void check_type(struct check *check, const struct btf *btf, const char *map, __u32 id,
		       const char *name, size_t size)
{
	const struct btf_type *type = btf__type_by_id(btf, id);

	if (!name)
		return;
	if (!CHECK(check, type, "%s: no type %u", map, id))
		return;
	CHECK(check, !strcmp(btf__name_by_offset(btf, type->name_off), name),
	      "%s: type %s instead of %s", map, btf__name_by_offset(btf, type->name_off), name);
	CHECK(check, (size_t)btf__resolve_size(btf, id) == size, "%s: %s has %lld octets, not %zu",
	      map, name, (long long)btf__resolve_size(btf, id), size);
}

static void check_map(struct check *check, const struct bpf_object *object,
		      const struct layout *layout)
{
	const struct bpf_map *map = bpf_object__find_map_by_name(object, layout->map);
	const struct btf *btf = bpf_object__btf(object);
	const struct bpf_map *inner;

	if (!CHECK(check, map, "no map %s", layout->map))
		return;
	CHECK(check, bpf_map__type(map) == layout->type, "%s: type %u", layout->map,
	      bpf_map__type(map));
	CHECK(check, bpf_map__key_size(map) == layout->key, "%s: key of %u", layout->map,
	      bpf_map__key_size(map));
	CHECK(check, bpf_map__value_size(map) == layout->value, "%s: value of %u", layout->map,
	      bpf_map__value_size(map));
	CHECK(check, bpf_map__max_entries(map) == layout->entries, "%s: %u entries", layout->map,
	      bpf_map__max_entries(map));
	check_type(check, btf, layout->map, bpf_map__btf_key_type_id(map), layout->key_type,
		   layout->key);
	check_type(check, btf, layout->map, bpf_map__btf_value_type_id(map), layout->value_type,
		   layout->value);
	inner = bpf_map__inner_map((struct bpf_map *)map);
	if (!CHECK(check, !inner == !layout->inner_type, "%s: inner map", layout->map) || !inner)
		return;
	CHECK(check, bpf_map__type(inner) == layout->inner_type, "%s: inner type %u", layout->map,
	      bpf_map__type(inner));
	CHECK(check, bpf_map__key_size(inner) == layout->inner_key, "%s: inner key of %u",
	      layout->map, bpf_map__key_size(inner));
	CHECK(check, bpf_map__value_size(inner) == layout->inner_value, "%s: inner value of %u",
	      layout->map, bpf_map__value_size(inner));
}

static void check_all_known(struct check *check, const struct bpf_object *object)
{
	struct bpf_map *map;

	bpf_object__for_each_map(map, object)
	{
		bool known = false;

		for (size_t i = 0; i < LAYOUTS; i++)
			known |= !strcmp(layouts[i].map, bpf_map__name(map));
		CHECK(check, known || bpf_map__is_internal(map), "map %s has no row here",
		      bpf_map__name(map));
	}
}

static const char *const hooks[] = {
#define PG_X(symbol, program, ...) #program,
	PG_HOOKS(PG_X)
#undef PG_X
};
static const char *const link_hooks[] = {
#define PG_X(symbol, program, ...) #program,
	PG_LINK_HOOKS(PG_X) "pg_link_new",
	"pg_link_bar_in",
	"pg_link_inner",
#undef PG_X
};

static void check_programs(struct check *check, const struct bpf_object *object,
			   const char *const *names, size_t count)
{
	struct bpf_program *program;
	size_t programs = 0;

	for (size_t i = 0; i < count; i++)
		CHECK(check, bpf_object__find_program_by_name(object, names[i]), "no program %s",
		      names[i]);
	bpf_object__for_each_program(program, object) programs++;
	CHECK(check, programs == count, "%zu programs for %zu hooks", programs, count);
}

int main(void)
{
	struct phasegate_bpf *skeleton = phasegate_bpf__open();
	struct links_bpf *links = links_bpf__open();
	struct check check = {};
	const struct btf *btf;

	if (!CHECK(&check, skeleton && links, "an object cannot be read: %s", strerror(errno)))
		return EXIT_FAILURE;
	btf = bpf_object__btf(skeleton->obj);
	for (size_t i = 0; i < LAYOUTS; i++) {
		check_map(&check, skeleton->obj, &layouts[i]);
		check_map(&check, links->obj, &layouts[i]);
	}
	check_all_known(&check, skeleton->obj);
	check_all_known(&check, links->obj);
	check_group(&check, "maps");
	for (size_t i = 0; i < sizeof(structs) / sizeof(structs[0]); i++) {
		const __s32 id = btf__find_by_name_kind(btf, structs[i].name, BTF_KIND_STRUCT);

		if (CHECK(&check, id > 0, "no type information of %s", structs[i].name))
			check_type(&check, btf, "abi", (__u32)id, structs[i].name, structs[i].size);
	}
	check_group(&check, "structs");
	check_programs(&check, skeleton->obj, hooks, sizeof(hooks) / sizeof(hooks[0]));
	check_programs(&check, links->obj, link_hooks, sizeof(link_hooks) / sizeof(link_hooks[0]));
	check_group(&check, "one program a hook");
	links_bpf__destroy(links);
	phasegate_bpf__destroy(skeleton);
	return check_end(&check);
}
