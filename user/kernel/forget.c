/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <bpf/bpf.h>
#include <string.h>

#include "kernel_internal.h"

/* Of the keys that begin with the id of an Environment. */
#define KEY_MAX 64

void pg_keys_forget(int map, size_t key_size, size_t most, uint64_t env_id)
{
	char key[KEY_MAX], next[KEY_MAX], *previous = NULL;

	assert(key_size <= KEY_MAX);
	/* A key deleted meanwhile makes the walk start again; the table's size bounds it. */
	for (size_t i = 0; i < 2 * most; i++) {
		uint64_t owner;

		if (bpf_map_get_next_key(map, previous, next))
			break;
		memcpy(&owner, next, sizeof(owner));
		if (owner == env_id && !bpf_map_delete_elem(map, next))
			continue;
		previous = memcpy(key, next, key_size);
	}
}
