/* SPDX-License-Identifier: Apache-2.0 */
/* Lines in the manner of TAP: one for each check() group, details of what failed before it. */
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* What ctest takes for "skipped". */
#define CHECK_SKIPPED 77

struct check {
	unsigned int groups, failed_groups;
	unsigned long checks, failures;
};

static inline void check_group(struct check *check, const char *name)
{
	check->groups++;
	check->failed_groups += check->failures > 0;
	printf("%sok %u - %s (%lu checks, %lu failed)\n", check->failures ? "not " : "",
	       check->groups, name, check->checks, check->failures);
	check->checks = 0;
	check->failures = 0;
}

static inline int check_end(const struct check *check)
{
	printf("1..%u\n", check->groups);
	return check->failed_groups ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* The first failures are enough to see what is wrong. */
#define CHECK_SHOWN 20

#define CHECK(check, condition, ...) \
	({ \
		const bool holds_ = (condition); \
		(check)->checks++; \
		if (!holds_ && (check)->failures++ < CHECK_SHOWN) { \
			printf("# %s:%d: ", __FILE_NAME__, __LINE__); \
			printf(__VA_ARGS__); \
			putchar('\n'); \
		} \
		holds_; \
	})
