/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small JSON documents with a known form: requests, settings, state. A document is read by a table
 * of its fields into a struct; whatever does not fit is refused with the place and the reason.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "scan.h"

/* The largest number that every JSON implementation reads exactly. */
#define PG_JSON_NUMBER_MAX 9007199254740991ULL

/* What is wrong with a document. The texts are printable. */
struct pg_json_problem {
	char pointer[256]; /* JSON pointer (RFC 6901); "": the whole document */
	char message[256];
	char hint[64]; /* what to write instead; "": no suggestion */
};

/* A document; values are read-only and live as long as it does. */
struct pg_json;
struct pg_json_value;

/* -EINVAL: see problem; -ENOMEM. The text may be freed, unless limits->skip is set. */
int pg_json_parse(const char *text, size_t size, const struct pg_json_limits *limits,
		  struct pg_json **ret_json, struct pg_json_problem *problem) PG_MUST_CHECK;
void pg_json_free(struct pg_json *json);
static inline void pg_json_freep(struct pg_json **json)
{
	pg_json_free(*json);
}
#define pg_autojson PG_CLEANUP(pg_json_freep)

const struct pg_json_value *pg_json_root(const struct pg_json *json);

/* The value of limits->skip as it stands in the text; NULL if it is absent (size 0) or null. */
const char *pg_json_skipped(const struct pg_json *json, size_t *ret_size);

enum pg_json_type {
	PG_JSON_BOOL,	 /* bool */
	PG_JSON_NUMBER,	 /* uint64_t: an integer, at most PG_JSON_NUMBER_MAX */
	PG_JSON_DECIMAL, /* uint64_t: an integer of any size in a string of digits, or a number */
	PG_JSON_STRING,	 /* const char * */
	PG_JSON_ARRAY,	 /* const struct pg_json_value * */
	PG_JSON_OBJECT,	 /* const struct pg_json_value * */
	PG_JSON_ANY,	 /* const struct pg_json_value * */
	PG_JSON_SKIP,	 /* nothing: the field of limits->skip, see pg_json_skipped() */
};

/* One field of an object. */
struct pg_json_field {
	const char *name;
	enum pg_json_type type;
	size_t offset; /* of the variable in the struct that is read into */
	bool required;
	uint64_t max; /* of numbers, octets of a string, elements; 0: PG_JSON_NUMBER_MAX */
};
/* Fields of one object. */
#define PG_JSON_FIELDS_MAX 32
#define PG_JSON_FIELD(into, member, json_type, ...) \
	{ \
		.name = #member, .type = (json_type), .offset = offsetof(into, member), \
		##__VA_ARGS__ \
	}

/*
 * Reads the fields of the object into the struct. Absent and null leave the variable as it is. An
 * unknown field, one that is there twice, one that is missing and a value that does not fit are
 * -EINVAL. pointer is where the object stands; strings have no NUL inside.
 */
int pg_json_read(const struct pg_json *json, const struct pg_json_value *object,
		 const char *pointer, const struct pg_json_field *fields, size_t count, void *into,
		 struct pg_json_problem *problem) PG_MUST_CHECK;

/* Elements of an array: the first, the next; NULL at the end. */
const struct pg_json_value *pg_json_first(const struct pg_json_value *array);
const struct pg_json_value *pg_json_next(const struct pg_json_value *element);
size_t pg_json_count(const struct pg_json_value *array);

/* NULL if the value is of another type. */
const char *pg_json_string_of(const struct pg_json_value *value);
/* false if it is none, no integer, or larger. */
bool pg_json_number_of(const struct pg_json_value *value, uint64_t max, uint64_t *ret_number);
bool pg_json_is_object(const struct pg_json_value *value);
bool pg_json_is_array(const struct pg_json_value *value);

/* For replies, which a newer peer may say more in: the member of an object. NULL: it is absent,
 * null, or this is no object. */
const struct pg_json_value *pg_json_member(const struct pg_json_value *object, const char *name);
/* The name that an element of an object (pg_json_first(), pg_json_next()) has. */
const char *pg_json_name_of(const struct pg_json_value *value);
/* Whether it is the boolean true; NULL is not. */
bool pg_json_is_true(const struct pg_json_value *value);

/* The value without white space, which the caller frees; NULL: no memory. */
char *pg_json_print(const struct pg_json_value *value) PG_MUST_CHECK;

/* Sets the problem and returns -EINVAL. hint may be NULL. */
int pg_json_fail(struct pg_json_problem *problem, const char *pointer, const char *hint,
		 const char *format, ...) PG_PRINTF(4, 5);
