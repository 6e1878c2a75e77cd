/* SPDX-License-Identifier: Apache-2.0 */
#include "name_index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/vector.h"

/* A name that lists have, by host entries, by wildcards ("*." in front), or both. */
struct name {
	const char *text;
	uint32_t hosts;	    /* lists */
	uint32_t wildcards; /* lists */
	size_t wildcard;    /* number + 1; 0: no list has it as a wildcard */
	size_t host;	    /* number + 1; 0: no list has it as a host, or it is "localhost" */
};

struct pg_name_index {
	struct pg_hash_key key;
	struct pg_hash_table table; /* of names */
	struct name *names;
	size_t count, room;
	const char **wildcards, **hosts;
	size_t wildcard_count, wildcard_room;
	size_t host_count, host_room;
};

/*
 * The hash of a name is made label by label from its end, so that those of all its suffixes come
 * out on the way: the hash of a label is keyed with the one of what follows it.
 */
static uint64_t add_label(const struct pg_hash_key *key, uint64_t rest, const char *label,
			  size_t size)
{
	const struct pg_hash_key chained = {.word = {key->word[0] ^ rest, key->word[1]}};

	return pg_hash(&chained, label, size);
}

/* Where the label begins that ends before end; the labels of a name are never empty. */
static size_t label_start(const char *name, size_t end)
{
	while (end > 0 && name[end - 1] != '.')
		end--;
	return end;
}

static uint64_t hash_name(const struct pg_hash_key *key, const char *name)
{
	uint64_t hash = 0;

	for (size_t end = strlen(name);;) {
		const size_t start = label_start(name, end);

		hash = add_label(key, hash, name + start, end - start);
		if (start == 0)
			return hash;
		end = start - 1;
	}
}

static struct name *find(const struct pg_name_index *index, uint64_t hash, const char *text)
{
	uint32_t number;

	for (size_t cursor = 0; pg_hash_table_next(&index->table, hash, &cursor, &number);)
		if (!strcmp(index->names[number].text, text))
			return &index->names[number];
	return NULL;
}

static int append(const char ***texts, size_t *count, size_t *room, const char *text)
{
	const int error = pg_vector_grow(texts, *count, room, sizeof(**texts));

	if (!error)
		(*texts)[(*count)++] = text;
	return error;
}

static int add_host(struct pg_name_index *index, struct name *name, uint32_t lists)
{
	int error;

	if (!name->hosts && strcmp(name->text, "localhost") != 0) {
		error = append(&index->hosts, &index->host_count, &index->host_room, name->text);
		if (error)
			return error;
		name->host = index->host_count;
	}
	name->hosts |= lists;
	return 0;
}

static int add_wildcard(struct pg_name_index *index, struct name *name, uint32_t lists)
{
	int error = 0;

	if (!name->wildcard)
		error = append(&index->wildcards, &index->wildcard_count, &index->wildcard_room,
			       name->text);
	if (error)
		return error;
	name->wildcards |= lists;
	if (!name->wildcard)
		name->wildcard = index->wildcard_count;
	return 0;
}

static int add_entry(struct pg_name_index *index, const struct pg_entry *entry, uint32_t lists)
{
	struct name *name;
	uint64_t hash;

	if (entry->kind != PG_ENTRY_HOST && entry->kind != PG_ENTRY_WILDCARD)
		return 0;
	hash = hash_name(&index->key, entry->name);
	name = find(index, hash, entry->name);
	if (!name) {
		if (pg_hash_table_reserve(&index->table, 1) < 0 ||
		    pg_vector_grow(&index->names, index->count, &index->room,
				   sizeof(*index->names)) < 0)
			return -ENOMEM;
		name = &index->names[index->count];
		*name = (struct name){.text = entry->name};
		pg_hash_table_add(&index->table, hash, (uint32_t)index->count++);
	}
	return entry->kind == PG_ENTRY_HOST ? add_host(index, name, lists)
					    : add_wildcard(index, name, lists);
}

/* Phases that inherit share their entries. */
static bool is_shared_with_earlier(const struct pg_entries *const *lists, size_t number)
{
	for (size_t i = 0; i < number; i++)
		if (lists[i] == lists[number])
			return true;
	return false;
}

static int add_list(struct pg_name_index *index, const struct pg_entries *const *lists,
		    size_t count, size_t number)
{
	const struct pg_entries *entries = lists[number];
	uint32_t same = 0;
	int error = 0;

	if (!entries || is_shared_with_earlier(lists, number))
		return 0;
	for (size_t i = number; i < count; i++)
		if (lists[i] == entries)
			same |= 1U << i;
	for (size_t i = 0; !error && i < entries->count; i++)
		error = add_entry(index, &entries->items[i], same);
	return error;
}

int pg_name_index_new(const struct pg_entries *const *lists, size_t count,
		      struct pg_name_index **ret_index, struct pg_error *err)
{
	PG_CLEANUP(pg_name_index_freep) struct pg_name_index *index = calloc(1, sizeof(*index));
	int error = index ? 0 : -ENOMEM;

	if (count > PG_NAME_LISTS_MAX)
		return pg_fail(err, -EINVAL, "%zu lists of names, of %d that can be told apart",
			       count, PG_NAME_LISTS_MAX);
	if (index)
		pg_hash_key_make(&index->key);
	for (size_t i = 0; !error && i < count; i++)
		error = add_list(index, lists, count, i);
	if (error)
		return pg_fail(err, error, "not enough memory for an index of the names");
	*ret_index = PG_TAKE_PTR(index);
	return 0;
}

void pg_name_index_free(struct pg_name_index *index)
{
	if (!index)
		return;
	pg_hash_table_clear(&index->table);
	free(index->names);
	free(index->wildcards);
	free(index->hosts);
	free(index);
}

struct pg_name_match pg_name_index_find_in(const struct pg_name_index *index, unsigned int lists,
					   const char *name)
{
	struct pg_name_match match = {};
	uint64_t hash = 0;

	for (size_t end = strlen(name);;) {
		const size_t start = label_start(name, end);
		const struct name *found;

		/* Not a name at all, so no suffix of it counts. */
		if (start == end)
			return (struct pg_name_match){};
		hash = add_label(&index->key, hash, name + start, end - start);
		found = find(index, hash, name + start);
		if (start == 0) {
			if (found)
				match.by_host = found->hosts & lists;
			if (match.by_host)
				match.host = found->host;
			match.lists |= match.by_host;
			return match;
		}
		if (found && found->wildcards & lists) {
			match.lists |= found->wildcards & lists;
			match.wildcard = found->wildcard;
		}
		end = start - 1;
	}
}

size_t pg_name_index_wildcards(const struct pg_name_index *index)
{
	return index->wildcard_count;
}

const char *pg_name_index_wildcard(const struct pg_name_index *index, size_t number)
{
	return index->wildcards[number];
}

size_t pg_name_index_hosts(const struct pg_name_index *index)
{
	return index->host_count;
}

const char *pg_name_index_host(const struct pg_name_index *index, size_t number)
{
	return index->hosts[number];
}
