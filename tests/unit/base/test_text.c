/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <criterion/criterion.h>

Test(text, paths)
{
	cr_expect(pg_path_is_within("/a", "/"));
	cr_expect(pg_path_is_within("/a", "/a"));
	cr_expect(pg_path_is_within("/a/b", "/a"));
	cr_expect_not(pg_path_is_within("/ab", "/a"));
	cr_expect_not(pg_path_is_within("/", "/a"));
	cr_expect_not(pg_path_is_within("/a", "/a/b"));
}
