/* SPDX-License-Identifier: Apache-2.0 */
/* The names of a policy: which list has them, and the book of what they have taught. */
#include "dns.h"

#include <errno.h>

static int index_names(struct pg_names *names, const struct pg_content *content,
		       unsigned int per_minute, struct pg_error *err)
{
	const struct pg_entries *lists[PG_PHASE_COUNT];
	int error;

	for (size_t i = 0; i < content->compiled_count; i++)
		lists[i] = content->compiled[i].entries;
	error = pg_name_index_new(lists, content->compiled_count, &names->index, err);
	if (error)
		return error;
	names->budget = pg_budget_new(pg_name_index_wildcards(names->index), per_minute);
	return names->budget ? 0
			     : pg_fail(err, -ENOMEM, "not enough memory for %zu wildcards",
				       pg_name_index_wildcards(names->index));
}

static int open_book(struct pg_names *names, struct pg_environment *environment,
		     struct pg_content *content, struct pg_error *err)
{
	const struct pg_learned_options options = {
		.lists = names->lists,
		.list_count = content->compiled_count,
		.capacity = environment->settings.dns.addresses_max,
		.shared = pg_learning_warn_shared,
		.userdata = environment,
	};

	for (size_t i = 0; i < content->compiled_count; i++)
		if (content->compiled[i].has_names)
			names->lists[i] = &content->compiled[i].learned;
	return pg_learned_book_new(&options, &names->book, err);
}

int pg_names_new(struct pg_environment *environment, struct pg_content *content,
		 struct pg_names **ret_names, struct pg_error *err)
{
	struct pg_names *names = calloc(1, sizeof(*names));
	int error;

	if (!names)
		return pg_fail(err, -ENOMEM, "not enough memory for names");
	error = index_names(names, content, environment->settings.dns.wildcard_per_minute, err);
	if (!error)
		error = open_book(names, environment, content, err);
	if (error) {
		pg_names_free(names);
		return error;
	}
	*ret_names = names;
	return 0;
}

void pg_names_free(struct pg_names *names)
{
	if (!names)
		return;
	pg_learned_book_free(names->book);
	pg_budget_free(names->budget);
	pg_name_index_free(names->index);
	free(names);
}

struct recalling {
	struct pg_learned_book *book;
	unsigned int list;
	struct pg_error *err;
};

static int recall(void *userdata, const struct pg_addr *addr, uint64_t expires)
{
	const struct recalling *recalling = userdata;

	return pg_learned_book_recall(recalling->book, recalling->list, addr, expires,
				      recalling->err);
}

int pg_names_recall(struct pg_content *content, struct pg_error *err)
{
	for (unsigned int i = 0; i < content->compiled_count; i++) {
		struct recalling recalling = {content->names->book, i, err};
		int error;

		if (!content->compiled[i].learned.slot)
			continue;
		error = pg_learned_walk(&content->compiled[i].learned, recall, &recalling, err);
		if (error)
			return error;
	}
	return 0;
}

struct carrying {
	const struct pg_name_index *index;
	struct pg_learned_book *book;
	struct pg_error *err;
};

static int carry(void *userdata, const char *name, const struct pg_addr *addr, uint64_t expires)
{
	const struct carrying *carrying = userdata;
	const unsigned int lists = pg_name_index_find(carrying->index, name).lists;

	if (!lists)
		return 0;
	return pg_learned_book_add(carrying->book, lists, name, addr, expires, carrying->err);
}

int pg_names_carry_over(const struct pg_content *from, struct pg_content *into,
			struct pg_error *err)
{
	struct carrying carrying = {.err = err};

	if (!from->names || !into->names)
		return 0;
	carrying.index = into->names->index;
	carrying.book = into->names->book;
	return pg_learned_book_visit(from->names->book, carry, &carrying);
}
