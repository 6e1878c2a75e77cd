/* SPDX-License-Identifier: Apache-2.0 */
#include "budget.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"

#define WINDOW_NS (60 * PG_NSEC_PER_SEC)

/* Room for names when a wildcard is first used; a power of two. */
#define ROOM_MIN 64

/* Names of one wildcard in the window: an open hash table, at most half full. 0: a free place. */
struct window {
	uint64_t *names;
	size_t room;
	unsigned int count;
	bool refused;
	uint64_t start;
};

struct pg_budget {
	struct pg_hash_key key;
	unsigned int per_minute;
	size_t count;
	struct window windows[];
};

struct pg_budget *pg_budget_new(size_t count, unsigned int per_minute)
{
	struct pg_budget *budget;

	if (count > (SIZE_MAX - sizeof(*budget)) / sizeof(budget->windows[0]))
		return NULL;
	budget = calloc(1, sizeof(*budget) + count * sizeof(budget->windows[0]));
	if (!budget)
		return NULL;
	pg_hash_key_make(&budget->key);
	budget->count = count;
	budget->per_minute = per_minute;
	return budget;
}

void pg_budget_free(struct pg_budget *budget)
{
	if (!budget)
		return;
	for (size_t i = 0; i < budget->count; i++)
		free(budget->windows[i].names);
	free(budget);
}

/* Where the name is or would be. */
static size_t find(const uint64_t *names, size_t room, uint64_t name)
{
	size_t at = name & (room - 1);

	while (names[at] != 0 && names[at] != name)
		at = (at + 1) & (room - 1);
	return at;
}

/* Keeps the table at most half full after one more name. */
static bool make_room(struct window *window)
{
	size_t room = window->room > 0 ? 2 * window->room : ROOM_MIN;
	uint64_t *names;

	if (2 * ((size_t)window->count + 1) <= window->room)
		return true;
	names = calloc(room, sizeof(*names));
	if (!names)
		return false;
	for (size_t i = 0; i < window->room; i++) {
		if (window->names[i] != 0)
			names[find(names, room, window->names[i])] = window->names[i];
	}
	free(window->names);
	window->names = names;
	window->room = room;
	return true;
}

static void begin(struct window *window, uint64_t now_ns)
{
	if (window->names)
		memset(window->names, 0, window->room * sizeof(*window->names));
	window->count = 0;
	window->refused = false;
	window->start = now_ns;
}

bool pg_budget_spend(struct pg_budget *budget, size_t wildcard, const char *name, uint64_t now_ns,
		     bool *ret_first)
{
	struct window *window = &budget->windows[wildcard];
	uint64_t hash = pg_hash(&budget->key, name, strlen(name));

	*ret_first = false;
	/* 0 marks a free place. */
	hash += hash == 0;
	if ((window->count == 0 && !window->refused) || now_ns - window->start >= WINDOW_NS)
		begin(window, now_ns);
	if (window->room > 0 && window->names[find(window->names, window->room, hash)] == hash)
		return true;
	/* Without memory the name is refused, too: what cannot be counted is not allowed. */
	if (window->count >= budget->per_minute || !make_room(window)) {
		*ret_first = !window->refused;
		window->refused = true;
		return false;
	}
	window->names[find(window->names, window->room, hash)] = hash;
	window->count++;
	return true;
}
