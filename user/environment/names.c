/* SPDX-License-Identifier: Apache-2.0 */
/* The names of a policy: which list has them, and the book of what they have taught. */
#include "dns.h"

#include <errno.h>
#include <string.h>

#include "compile/allows.h"

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

/* What the kernel's tables say already was taught by names that are not known any more: they are
 * one more owner, after those of the index. */
static uint32_t unknown_owner(const struct pg_names *names)
{
	return (uint32_t)pg_quota_owners(names->index);
}

static int make_quotas(struct pg_names *names, size_t addresses_max, struct pg_error *err)
{
	pg_autofree uint32_t *quotas = pg_quota_make(names->index, addresses_max);
	const uint32_t owners = unknown_owner(names);

	names->quotas = reallocarray(NULL, owners + 1UL, sizeof(*names->quotas));
	if (!quotas || !names->quotas)
		return pg_fail(err, -ENOMEM, "not enough memory for the quotas of %u names",
			       owners);
	memcpy(names->quotas, quotas, owners * sizeof(*quotas));
	names->quotas[owners] = (uint32_t)addresses_max;
	return 0;
}

static const char *owner_text(void *userdata, uint32_t owner)
{
	struct pg_names *names = userdata;

	if (owner == unknown_owner(names))
		return "an earlier name";
	return pg_quota_text(names->index, owner, names->owner_text);
}

size_t pg_names_capacity(const struct pg_names *names, unsigned int list, size_t addresses_max)
{
	return pg_quota_capacity(names->index, names->quotas, list, addresses_max);
}

int pg_names_open_book(struct pg_content *content, struct pg_error *err)
{
	struct pg_names *names = content->names;
	const struct pg_learned_options options = {
		.lists = names->lists,
		.list_count = content->compiled_count,
		.capacity = names->environment->settings.dns.addresses_max,
		.quotas = names->quotas,
		.owner_count = unknown_owner(names) + 1UL,
		.owner_text = owner_text,
		.shared = pg_learning_warn_shared,
		.userdata = names,
	};

	for (size_t i = 0; i < content->compiled_count; i++)
		if (content->compiled[i].has_names)
			names->lists[i] = &content->compiled[i].learned;
	return pg_learned_book_new(&options, &names->book, err);
}

int pg_names_new(struct pg_environment *environment, const struct pg_content *content,
		 struct pg_names **ret_names, struct pg_error *err)
{
	const struct pg_dns_settings *settings = &environment->settings.dns;
	struct pg_names *names = calloc(1, sizeof(*names));
	int error;

	if (!names)
		return pg_fail(err, -ENOMEM, "not enough memory for names");
	names->environment = environment;
	error = index_names(names, content, settings->wildcard_per_minute, err);
	if (!error)
		error = make_quotas(names, settings->addresses_max, err);
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
	free(names->quotas);
	pg_budget_free(names->budget);
	pg_name_index_free(names->index);
	free(names);
}

struct recalling {
	struct pg_names *names;
	unsigned int list;
	struct pg_error *err;
};

static int recall(void *userdata, const struct pg_addr *addr, uint64_t expires)
{
	const struct recalling *recalling = userdata;

	return pg_learned_book_recall(recalling->names->book, recalling->list,
				      unknown_owner(recalling->names), addr, expires,
				      recalling->err);
}

int pg_names_recall(struct pg_content *content, struct pg_error *err)
{
	for (unsigned int i = 0; i < content->compiled_count; i++) {
		struct recalling recalling = {content->names, i, err};
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
	const struct pg_names *from;
	struct pg_names *into;
	/* By list of the old policy: the new one's that have all of its names. */
	uint32_t wider[PG_PHASE_COUNT];
	struct pg_error *err;
};

static void compare_names(struct carrying *carrying, const struct pg_content *from,
			  const struct pg_content *into)
{
	for (size_t i = 0; i < from->compiled_count; i++)
		for (size_t j = 0; j < into->compiled_count; j++)
			if (into->compiled[j].learned.slot &&
			    pg_entries_have_names(from->compiled[i].entries,
						  into->compiled[j].entries))
				carrying->wider[i] |= 1U << j;
}

/* Whichever name it was: a list that has all names of the one that has it has that one. */
static int carry_unknown(const struct carrying *carrying, uint32_t lists,
			 const struct pg_addr *addr, uint64_t expires)
{
	uint32_t wider = 0;
	int error = 0;

	for (size_t i = 0; i < PG_PHASE_COUNT; i++)
		if (lists & 1U << i)
			wider |= carrying->wider[i];
	for (unsigned int j = 0; j < PG_PHASE_COUNT && !error; j++)
		if (wider & 1U << j)
			error = pg_learned_book_recall(carrying->into->book, j,
						       unknown_owner(carrying->into), addr, expires,
						       carrying->err);
	return error;
}

static int carry(void *userdata, uint32_t owner, uint32_t lists, const struct pg_addr *addr,
		 uint64_t expires)
{
	const struct carrying *carrying = userdata;
	struct pg_learned_teacher teacher;
	char text[PG_OWNER_TEXT];

	if (owner == unknown_owner(carrying->from))
		return carry_unknown(carrying, lists, addr, expires);
	teacher = pg_quota_teacher(carrying->into->index,
				   pg_quota_text(carrying->from->index, owner, text));
	if (!teacher.lists)
		return 0;
	return pg_learned_book_add(carrying->into->book, &teacher, addr, expires, carrying->err);
}

int pg_names_carry_over(const struct pg_content *from, struct pg_content *into,
			struct pg_error *err)
{
	struct carrying carrying = {.from = from->names, .into = into->names, .err = err};

	if (!from->names || !into->names)
		return 0;
	compare_names(&carrying, from, into);
	return pg_learned_book_visit(from->names->book, carry, &carrying);
}
