/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

static int fail_long(struct pg_error *err)
{
	char text[2 * PG_ERROR_TEXT];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	return pg_fail_errno(err, -EIO, "%s", text);
}

Test(error, texts)
{
	struct pg_error err = {0};

	cr_expect_eq(pg_fail(&err, -EINVAL, "port %d", 0), -EINVAL);
	cr_expect_eq(err.number, -EINVAL);
	cr_expect_str_eq(err.text, "port 0");
	cr_expect_eq(pg_fail_errno(&err, -ENOENT, "cannot open %s", "a"), -ENOENT);
	cr_expect_str_eq(err.text, "cannot open a: No such file or directory");
	cr_expect_eq(pg_error_prefix(&err, "cgroup %d", 7), -ENOENT);
	cr_expect_str_eq(err.text, "cgroup 7: cannot open a: No such file or directory");
}

Test(error, too_long_texts_are_cut)
{
	struct pg_error err = {0};

	cr_expect_eq(fail_long(&err), -EIO);
	cr_expect_eq(strlen(err.text), PG_ERROR_TEXT - 1);
	cr_expect_eq(pg_error_prefix(&err, "head"), -EIO);
	cr_expect_eq(strlen(err.text), PG_ERROR_TEXT - 1);
	cr_expect_eq(strncmp(err.text, "head: xxx", 9), 0);
}

Test(error, nobody_asks)
{
	cr_expect_eq(pg_fail(NULL, -EINVAL, "x"), -EINVAL);
	cr_expect_eq(pg_fail_errno(NULL, -EINVAL, "x"), -EINVAL);
	cr_expect_lt(pg_error_prefix(NULL, "x"), 0);
}
