/* SPDX-License-Identifier: Apache-2.0 */
#include "exposure.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/text.h"
#include "base/vector.h"

/* A path is longer as a rule than what one reads of it. */
#define TEXT_OCTETS 480

static const struct {
	const char *name, *next_step;
	enum pg_exposure_level level;
} kinds[] = {
#define PG_X(symbol, name, level, next_step) \
	[PG_EXPOSURE_##symbol] = {name, next_step, PG_EXPOSURE_##level},
	PG_EXPOSURES(PG_X)
#undef PG_X
};

static const char *const levels[] = {
#define PG_X(symbol, name) [PG_EXPOSURE_##symbol] = name,
	PG_EXPOSURE_LEVELS(PG_X)
#undef PG_X
};

const char *pg_exposure_name(enum pg_exposure_id id)
{
	return kinds[id].name;
}

const char *pg_exposure_next_step(enum pg_exposure_id id)
{
	return kinds[id].next_step;
}

enum pg_exposure_level pg_exposure_default(enum pg_exposure_id id)
{
	return kinds[id].level;
}

const char *pg_exposure_level_name(enum pg_exposure_level level)
{
	return levels[level];
}

int pg_exposure_parse(const char *name, enum pg_exposure_id *ret_id)
{
	for (size_t i = 0; i < PG_ARRAY_SIZE(kinds); i++) {
		if (strcmp(kinds[i].name, name) == 0) {
			*ret_id = (enum pg_exposure_id)i;
			return 0;
		}
	}
	return -EINVAL;
}

int pg_exposure_level_parse(const char *name, enum pg_exposure_level *ret_level)
{
	for (size_t i = 0; i < PG_ARRAY_SIZE(levels); i++) {
		if (strcmp(levels[i], name) == 0) {
			*ret_level = (enum pg_exposure_level)i;
			return 0;
		}
	}
	return -EINVAL;
}

void pg_exposures_clear(struct pg_exposure_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->items[i].text);
	free(list->items);
	*list = (struct pg_exposure_list){0};
}

bool pg_exposures_have(const struct pg_exposure_list *list, enum pg_exposure_id id, size_t member)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->items[i].id == id && list->items[i].member == member)
			return true;
	return false;
}

static bool is_told(const struct pg_exposure_list *list, const struct pg_exposure *exposure)
{
	size_t texts = 0;

	for (size_t i = 0; i < list->count; i++) {
		const struct pg_exposure *other = &list->items[i];

		if (other->id != exposure->id || other->member != exposure->member)
			continue;
		if (strcmp(other->text, exposure->text) == 0 || ++texts == PG_EXPOSURE_TEXTS_MAX)
			return true;
	}
	return false;
}

void pg_exposures_add(struct pg_exposure_list *list, enum pg_exposure_id id, size_t member,
		      const char *format, ...)
{
	struct pg_exposure exposure = {.id = id, .member = member};
	pg_autofree char *text = NULL;
	va_list args;
	int size;

	va_start(args, format);
	size = vasprintf(&text, format, args);
	va_end(args);
	if (size < 0) {
		text = NULL;
		list->incomplete = true;
		return;
	}
	exposure.text = pg_text_printable(text, (size_t)size, TEXT_OCTETS);
	if (exposure.text && is_told(list, &exposure)) {
		free(exposure.text);
		return;
	}
	if (!exposure.text ||
	    pg_vector_grow(&list->items, list->count, &list->room, sizeof(*list->items)) < 0) {
		free(exposure.text);
		list->incomplete = true;
		return;
	}
	list->items[list->count++] = exposure;
}
