/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that grow. */
#pragma once

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "cleanup.h"

/*
 * Makes room for one more element in *array, which holds count of *room elements of the given size.
 * -ENOMEM leaves both as they are.
 */
static inline int PG_MUST_CHECK pg_vector_grow(void *array, size_t count, size_t *room, size_t size)
{
	const size_t more = *room ? 2 * *room : 64;
	void *larger;

	if (count < *room)
		return 0;
	larger = reallocarray(*(void **)array, more, size);
	if (!larger)
		return -ENOMEM;
	*(void **)array = larger;
	*room = more;
	return 0;
}
