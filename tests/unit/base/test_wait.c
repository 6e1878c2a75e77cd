/* SPDX-License-Identifier: Apache-2.0 */
#include "base/wait.h"

#include <criterion/criterion.h>
#include <errno.h>

Test(wait, what_ends_it)
{
	int wanted[2], interrupt[2];

	cr_assert_eq(pipe(wanted), 0);
	cr_assert_eq(pipe(interrupt), 0);
	cr_expect_eq(pg_wait_readable(wanted[0], interrupt[0], 0), 0);
	cr_expect_eq(pg_wait_readable(-1, -1, 0), 0);
	cr_assert_eq(write(wanted[1], "x", 1), 1);
	cr_expect_eq(pg_wait_readable(wanted[0], interrupt[0], -1), 1);
	cr_expect_eq(pg_wait_readable(wanted[0], -1, -1), 1);
	cr_assert_eq(write(interrupt[1], "x", 1), 1);
	cr_expect_eq(pg_wait_readable(wanted[0], interrupt[0], -1), -ECANCELED);
	cr_expect_eq(pg_wait_readable(-1, interrupt[0], -1), -ECANCELED);
}

Test(wait, the_end_of_a_pipe_is_readable)
{
	int ends[2];

	cr_assert_eq(pipe(ends), 0);
	close(ends[1]);
	cr_expect_eq(pg_wait_readable(ends[0], -1, -1), 1);
}
