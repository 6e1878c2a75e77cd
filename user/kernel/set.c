/* SPDX-License-Identifier: Apache-2.0 */
#include "set.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/clock.h"
#include "kernel_internal.h"
#include "parallel.h"

/* Rough kernel memory per element of a hash or trie, for the advice on locked memory. */
#define ELEMENT_BYTES 128

struct table {
	const char *name;
	enum bpf_map_type type;
	uint32_t key_size;
};

static const struct table tables[PG_TABLE_COUNT] = {
#define PG_X(symbol, map, map_type, key_type) \
	[PG_TABLE_##symbol] = {.name = #map, .type = map_type, .key_size = sizeof(key_type)},
	PG_TABLES(PG_X)
#undef PG_X
};

int pg_table_fd(const struct pg_kernel *kernel, enum pg_table table)
{
	switch (table) {
#define PG_X(symbol, map, type, key) \
	case PG_TABLE_##symbol: \
		return bpf_map__fd(kernel->skeleton->maps.map);
		PG_TABLES(PG_X)
#undef PG_X
	case PG_TABLE_COUNT:
		break;
	}
	return -1;
}

/* An array that is always there, so reading cannot fail. */
static struct pg_slot_use read_use(const struct pg_kernel *kernel, uint32_t slot)
{
	struct pg_slot_use use = {};

	bpf_map_lookup_elem(bpf_map__fd(kernel->skeleton->maps.pg_slots), &slot, &use);
	return use;
}

static int write_use(struct pg_kernel *kernel, uint32_t slot, const struct pg_slot_use *use,
		     struct pg_error *err)
{
	if (bpf_map_update_elem(bpf_map__fd(kernel->skeleton->maps.pg_slots), &slot, use,
				BPF_EXIST))
		return pg_fail_errno(err, -errno, "noting the use of slot %u", slot);
	return 0;
}

static int note_set(struct pg_kernel *kernel, uint32_t slot, uint32_t id, uint8_t names,
		    struct pg_error *err)
{
	struct pg_slot_use use = read_use(kernel, slot);

	use.set_id = id;
	use.set_tables = names;
	return write_use(kernel, slot, &use, err);
}

static int note_learned(struct pg_kernel *kernel, uint32_t slot, uint32_t id, struct pg_error *err)
{
	struct pg_slot_use use = read_use(kernel, slot);

	use.learned_id = id;
	return write_use(kernel, slot, &use, err);
}

void pg_table_key(enum pg_table table, const struct pg_prefix *prefix, void *key)
{
	switch (table) {
	case PG_TABLE_EXACT4:
		memcpy(key, &prefix->addr.word[3], sizeof(__be32));
		break;
	case PG_TABLE_PREFIX4: {
		struct pg_prefix4_key key4 = {.length = prefix->length};

		memcpy(key4.addr, &prefix->addr.word[3], sizeof(key4.addr));
		memcpy(key, &key4, sizeof(key4));
		break;
	}
	case PG_TABLE_EXACT6:
		memcpy(key, &prefix->addr, sizeof(prefix->addr));
		break;
	case PG_TABLE_PREFIX6: {
		struct pg_prefix6_key key6 = {.length = prefix->length};

		memcpy(key6.addr, &prefix->addr, sizeof(key6.addr));
		memcpy(key, &key6, sizeof(key6));
		break;
	}
	case PG_TABLE_COUNT:
		break;
	}
}

static int fill(int fd, const struct table *table, const void *keys, uint32_t count,
		struct pg_error *err)
{
	static const pg_set_value present = 1;
	pg_autofree pg_set_value *values = malloc(count * sizeof(*values));
	uint32_t done = count;

	if (!values)
		return pg_fail(err, -ENOMEM, "not enough memory to fill %s", table->name);
	memset(values, present, count * sizeof(*values));
	if (!bpf_map_update_batch(fd, keys, values, &done, NULL) && done == count)
		return 0;
	/* Tries have no batch operations before Linux 5.13: element by element. */
	for (uint32_t i = 0; i < count; i++)
		if (bpf_map_update_elem(fd, (const char *)keys + (size_t)i * table->key_size,
					&present, BPF_ANY))
			return pg_fail_errno(err, -errno, "filling %s, element %u of %u",
					     table->name, i + 1, count);
	return 0;
}

static int create_table(struct pg_kernel *kernel, enum pg_table index, uint32_t slot,
			const struct pg_prefix *prefixes, size_t count, struct pg_error *err)
{
	const struct table *table = &tables[index];
	const bool trie = table->type == BPF_MAP_TYPE_LPM_TRIE;
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = trie ? BPF_F_NO_PREALLOC : 0);
	pg_autofree char *keys = malloc(count * table->key_size);
	pg_autoclose int fd = -1;
	int error;

	if (!keys)
		return pg_fail(err, -ENOMEM, "not enough memory for %zu keys of %s", count,
			       table->name);
	fd = bpf_map_create(table->type, table->name, table->key_size, sizeof(pg_set_value),
			    (uint32_t)count, &options);
	if (fd < 0)
		return pg_fail_map(err, -errno, "creating", table->name, count * ELEMENT_BYTES);
	for (size_t i = 0; i < count; i++)
		pg_table_key(index, &prefixes[i], keys + i * table->key_size);
	error = fill(fd, table, keys, (uint32_t)count, err);
	if (error)
		return error;
	if (bpf_map_update_elem(pg_table_fd(kernel, index), &slot, &fd, BPF_ANY))
		return pg_fail_errno(err, -errno, "putting %s into slot %u", table->name, slot);
	return 0;
}

/* The tables of one set that is being made or let go. */
struct filling {
	struct pg_kernel *kernel;
	uint32_t slot;
	struct {
		enum pg_table index;
		const struct pg_prefix *prefixes;
		size_t count;
		int error;
		struct pg_error err;
	} tables[PG_TABLE_COUNT];
	size_t count;
};

static void fill_one(void *userdata, size_t number)
{
	struct filling *filling = userdata;
	__auto_type table = &filling->tables[number];

	table->error = create_table(filling->kernel, table->index, filling->slot, table->prefixes,
				    table->count, &table->err);
}

static void empty_one(void *userdata, size_t number)
{
	const struct filling *filling = userdata;

	bpf_map_delete_elem(pg_table_fd(filling->kernel, filling->tables[number].index),
			    &filling->slot);
}

/* All tables at once: the kernel waits an RCU period for each. */
static int create_tables(struct filling *filling, struct pg_error *err)
{
	pg_parallel(filling->count, fill_one, filling);
	for (size_t i = 0; i < filling->count; i++) {
		if (!filling->tables[i].error)
			continue;
		if (err)
			*err = filling->tables[i].err;
		return filling->tables[i].error;
	}
	return 0;
}

int pg_set_create(struct pg_kernel *kernel, const struct pg_address_set *set,
		  struct pg_kernel_set *ret_set, struct pg_error *err)
{
	const struct {
		const struct pg_prefix *prefixes;
		size_t count;
	} content[PG_TABLE_COUNT] = {
		[PG_TABLE_EXACT4] = {set->exact4, set->exact4_count},
		[PG_TABLE_PREFIX4] = {set->prefix4, set->prefix4_count},
		[PG_TABLE_EXACT6] = {set->exact6, set->exact6_count},
		[PG_TABLE_PREFIX6] = {set->prefix6, set->prefix6_count},
	};
	struct filling filling = {.kernel = kernel};
	struct pg_kernel_set created = {};
	int error;

	if (pg_address_set_is_empty(set)) {
		*ret_set = created;
		return 0;
	}
	if (getrandom(&created.id, sizeof(created.id), 0) != (ssize_t)sizeof(created.id))
		return pg_fail_errno(err, -errno, "drawing a random number");
	created.id |= 1;
	created.slot = filling.slot = pg_slot_take(kernel, &kernel->set_slots);
	if (!created.slot)
		return pg_fail(err, -ENOSPC, "all %d slots for address sets are in use",
			       PG_SLOT_MAX - 1);
	for (size_t i = 0; i < PG_TABLE_COUNT; i++) {
		if (!content[i].count)
			continue;
		filling.tables[filling.count].index = (enum pg_table)i;
		filling.tables[filling.count].prefixes = content[i].prefixes;
		filling.tables[filling.count++].count = content[i].count;
		created.tables |= (uint8_t)(1U << i);
	}
	error = note_set(kernel, created.slot, created.id, created.tables, err);
	if (!error)
		error = create_tables(&filling, err);
	if (error) {
		pg_set_destroy(kernel, &created);
		return error;
	}
	*ret_set = created;
	return 0;
}

int pg_set_occupy(struct pg_kernel *kernel, const struct pg_kernel_set *set, struct pg_error *err)
{
	struct pg_slot_use use;

	if (!set->tables)
		return 0;
	if (!set->slot || set->slot >= PG_SLOT_MAX)
		return pg_fail(err, -ERANGE, "%u is not a slot of address sets", set->slot);
	use = read_use(kernel, set->slot);
	if (!use.set_id || (set->id && use.set_id != set->id) ||
	    (use.set_tables & set->tables) != set->tables)
		return pg_fail(err, -ENOENT, "slot %u has not the set that is expected", set->slot);
	if (!pg_slot_occupy(&kernel->set_slots, set->slot))
		return pg_fail(err, -EEXIST, "slot %u of address sets is in use already",
			       set->slot);
	return 0;
}

static void empty_tables(struct pg_kernel *kernel, uint32_t slot, uint8_t names)
{
	struct filling filling = {.kernel = kernel, .slot = slot};

	for (size_t i = 0; i < PG_TABLE_COUNT; i++)
		if (names & (1U << i))
			filling.tables[filling.count++].index = (enum pg_table)i;
	pg_parallel(filling.count, empty_one, &filling);
	(void)!note_set(kernel, slot, 0, 0, NULL);
}

void pg_set_destroy(struct pg_kernel *kernel, struct pg_kernel_set *set)
{
	if (!set->slot)
		return;
	empty_tables(kernel, set->slot, set->tables);
	pg_slot_retire(&kernel->set_slots, set->slot);
	*set = (struct pg_kernel_set){};
}

int pg_learned_create(struct pg_kernel *kernel, size_t capacity,
		      struct pg_kernel_learned *ret_learned, struct pg_error *err)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_NO_PREALLOC);
	const int outer = bpf_map__fd(kernel->skeleton->maps.pg_learned_sets);
	struct bpf_map_info info = {};
	__u32 size = sizeof(info);
	pg_autoclose int fd = -1;
	uint32_t slot;
	int error;

	fd = bpf_map_create(BPF_MAP_TYPE_HASH, "pg_learned", sizeof(struct pg_addr),
			    sizeof(struct pg_learned), (uint32_t)capacity, &options);
	if (fd < 0)
		return pg_fail_map(err, -errno, "creating", "pg_learned", capacity * ELEMENT_BYTES);
	if (bpf_obj_get_info_by_fd(fd, &info, &size))
		return pg_fail_errno(err, -errno, "reading the number of pg_learned");
	slot = pg_slot_take(kernel, &kernel->learned_slots);
	if (!slot)
		return pg_fail(err, -ENOSPC, "all %d slots for learned addresses are in use",
			       PG_SLOT_MAX - 1);
	error = note_learned(kernel, slot, info.id, err);
	if (!error && bpf_map_update_elem(outer, &slot, &fd, BPF_ANY)) {
		error = pg_fail_errno(err, -errno, "putting pg_learned into slot %u", slot);
		(void)!note_learned(kernel, slot, 0, NULL);
	}
	if (error) {
		pg_slot_release(&kernel->learned_slots, slot);
		return error;
	}
	*ret_learned = (struct pg_kernel_learned){slot, info.id, PG_TAKE_FD(fd)};
	return 0;
}

int pg_learned_occupy(struct pg_kernel *kernel, uint32_t slot, uint32_t id,
		      struct pg_kernel_learned *ret_learned, struct pg_error *err)
{
	pg_autoclose int fd = -1;

	if (!slot || slot >= PG_SLOT_MAX)
		return pg_fail(err, -ERANGE, "%u is not a slot of learned addresses", slot);
	if (!id || read_use(kernel, slot).learned_id != id)
		return pg_fail(err, -ENOENT,
			       "slot %u has not the learned addresses that are expected", slot);
	fd = bpf_map_get_fd_by_id(id);
	if (fd < 0)
		return pg_fail_errno(err, -errno, "opening the learned addresses of slot %u", slot);
	if (!pg_slot_occupy(&kernel->learned_slots, slot))
		return pg_fail(err, -EEXIST, "slot %u of learned addresses is in use already",
			       slot);
	*ret_learned = (struct pg_kernel_learned){slot, id, PG_TAKE_FD(fd)};
	return 0;
}

static void empty_learned(struct pg_kernel *kernel, uint32_t slot)
{
	bpf_map_delete_elem(bpf_map__fd(kernel->skeleton->maps.pg_learned_sets), &slot);
	(void)!note_learned(kernel, slot, 0, NULL);
}

void pg_learned_destroy(struct pg_kernel *kernel, struct pg_kernel_learned *learned)
{
	if (!learned->slot)
		return;
	empty_learned(kernel, learned->slot);
	pg_slot_retire(&kernel->learned_slots, learned->slot);
	pg_close_fd(&learned->fd);
	learned->slot = 0;
}

int pg_learned_put(const struct pg_kernel_learned *learned, const struct pg_addr *addr,
		   uint64_t expires, struct pg_error *err)
{
	const struct pg_learned value = {.expires = expires};
	char text[PG_ADDR_TEXT];

	if (bpf_map_update_elem(learned->fd, addr, &value, BPF_ANY))
		return pg_fail_errno(err, -errno, "storing the learned address %s",
				     pg_addr_format(addr, text));
	return 0;
}

void pg_learned_remove(const struct pg_kernel_learned *learned, const struct pg_addr *addr)
{
	bpf_map_delete_elem(learned->fd, addr);
}

bool pg_learned_contains(const struct pg_kernel_learned *learned, const struct pg_addr *addr,
			 bool draining)
{
	struct pg_learned value;

	if (!learned->slot || bpf_map_lookup_elem(learned->fd, addr, &value))
		return false;
	return draining || pg_boottime_ns() < value.expires;
}

int pg_learned_walk(const struct pg_kernel_learned *learned, pg_learned_visit visit, void *userdata,
		    struct pg_error *err)
{
	struct pg_addr key, next, *previous = NULL;

	if (!learned->slot)
		return 0;
	while (!bpf_map_get_next_key(learned->fd, previous, &next)) {
		struct pg_learned value;
		int r;

		/* One that is gone meanwhile, and removed by nobody but us. */
		if (!bpf_map_lookup_elem(learned->fd, &next, &value)) {
			r = visit(userdata, &next, value.expires);
			if (r < 0)
				return pg_fail_errno(err, r, "reading the learned addresses");
		}
		key = next;
		previous = &key;
	}
	return 0;
}

size_t pg_kernel_sweep(struct pg_kernel *kernel)
{
	size_t swept = pg_states_sweep(kernel);

	for (uint32_t slot = 1; slot < PG_SLOT_MAX; slot++) {
		const struct pg_slot_use use = read_use(kernel, slot);

		if (use.set_id && !pg_slot_is_used(&kernel->set_slots, slot)) {
			empty_tables(kernel, slot, use.set_tables);
			swept++;
		}
		if (use.learned_id && !pg_slot_is_used(&kernel->learned_slots, slot)) {
			empty_learned(kernel, slot);
			swept++;
		}
	}
	return swept;
}
