/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each Environment has in pg_own, so that nothing of one costs a walk over those of all. This
 * process is the only one that writes the map; of pinned ones it reads it once.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/vector.h"
#include "kernel_internal.h"
#include "net/addr.h"

static int compare(const void *a, const void *b)
{
	const struct pg_own_list *first = a, *second = b;

	return (first->env_id > second->env_id) - (first->env_id < second->env_id);
}

struct pg_own_list *pg_own_book_find(const struct pg_own_book *book, uint64_t env_id)
{
	const struct pg_own_list key = {.env_id = env_id};

	return book->count ? bsearch(&key, book->lists, book->count, sizeof(key), compare) : NULL;
}

/* Takes the list over, unless there is no memory. Ids grow, so a new one is the last as a rule. */
static int insert(struct pg_own_book *book, const struct pg_own_list *list)
{
	size_t at = book->count;

	if (pg_vector_grow(&book->lists, book->count, &book->room, sizeof(*book->lists)))
		return -ENOMEM;
	while (at && book->lists[at - 1].env_id > list->env_id)
		at--;
	memmove(&book->lists[at + 1], &book->lists[at], (book->count - at) * sizeof(*book->lists));
	book->lists[at] = *list;
	book->count++;
	return 0;
}

static struct pg_addr *find_addr(const struct pg_own_list *list, const struct pg_addr *addr)
{
	for (size_t i = 0; list && i < list->count; i++)
		if (!pg_addr_compare(&list->items[i], addr))
			return &list->items[i];
	return NULL;
}

int pg_own_book_add(struct pg_own_book *book, uint64_t env_id, const struct pg_addr *addr)
{
	struct pg_own_list *list = pg_own_book_find(book, env_id);
	struct pg_own_list new = {.env_id = env_id};
	const bool is_new = !list;
	int error;

	if (find_addr(list, addr))
		return 0;
	if (is_new)
		list = &new;
	if (pg_vector_grow(&list->items, list->count, &list->room, sizeof(*list->items)))
		return -ENOMEM;
	list->items[list->count++] = *addr;
	/* Whole, since none is empty. */
	error = is_new ? insert(book, &new) : 0;
	if (error)
		free(new.items);
	return error;
}

void pg_own_book_remove(struct pg_own_book *book, uint64_t env_id, const struct pg_addr *addr)
{
	struct pg_own_list *list = pg_own_book_find(book, env_id);
	struct pg_addr *item = find_addr(list, addr);
	size_t at;

	if (!item)
		return;
	*item = list->items[--list->count];
	if (list->count)
		return;
	free(list->items);
	at = (size_t)(list - book->lists);
	book->count--;
	memmove(list, list + 1, (book->count - at) * sizeof(*list));
}

void pg_own_book_clear(struct pg_own_book *book)
{
	for (size_t i = 0; i < book->count; i++)
		free(book->lists[i].items);
	free(book->lists);
	*book = (struct pg_own_book){};
}

/* Of the Environment's addresses, those that have the group. */
static __u32 count_in_group(const struct pg_own_book *book, const struct pg_own_key *group)
{
	const struct pg_own_list *list = pg_own_book_find(book, group->env_id);
	__u32 count = 0;

	for (size_t i = 0; list && i < list->count; i++) {
		const struct pg_own_key address = {list->env_id, list->items[i]};
		struct pg_own_key its;

		if (pg_own_group(&address, &its) && !pg_addr_compare(&its.addr, &group->addr))
			count++;
	}
	return count;
}

/* A process that was killed in between has left a count that is not right. */
static void recount_groups(const struct pg_own_book *book, int groups)
{
	struct pg_own_key key, next, *previous = NULL;

	/* A key deleted meanwhile makes the walk start again; the table's size bounds it. */
	for (size_t i = 0; i < 2UL * PG_OWN_GROUPS_MAX; i++) {
		__u32 count;

		if (bpf_map_get_next_key(groups, previous, &next))
			break;
		count = count_in_group(book, &next);
		if (!count && !bpf_map_delete_elem(groups, &next))
			continue;
		if (count)
			(void)!bpf_map_update_elem(groups, &next, &count, BPF_EXIST);
		key = next;
		previous = &key;
	}
	for (size_t i = 0; i < book->count; i++)
		for (size_t k = 0; k < book->lists[i].count; k++) {
			const struct pg_own_key address = {book->lists[i].env_id,
							   book->lists[i].items[k]};
			struct pg_own_key group;
			__u32 count;

			if (!pg_own_group(&address, &group))
				continue;
			count = count_in_group(book, &group);
			(void)!bpf_map_update_elem(groups, &group, &count, BPF_NOEXIST);
		}
}

int pg_own_book_read(struct pg_own_book *book, int own, int groups)
{
	struct pg_own_key key, *previous = NULL;

	while (!bpf_map_get_next_key(own, previous, &key)) {
		int error = pg_own_book_add(book, key.env_id, &key.addr);

		if (error)
			return error;
		previous = &key;
	}
	recount_groups(book, groups);
	return 0;
}
