/* SPDX-License-Identifier: Apache-2.0 */
#include "base/process.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"

Test(process, flags)
{
	uint64_t flags;

	cr_assert(pg_stat_flags("7 (sh) S 1 7 7 0 -1 4194368 99 0", &flags));
	cr_assert_eq(flags, 4194368);
	cr_assert(pg_stat_flags("7 (a) S 1 2 3 4 5 6 (b) S 1 7 7 34816 7 64 99", &flags),
		  "a command may hold anything");
	cr_assert_eq(flags, 64);
	cr_assert_not(pg_stat_flags("7 (sh) S 1 7 7 0 -1", &flags));
	cr_assert_not(pg_stat_flags("7 (sh) S 1 7 7 0 -1 x 0", &flags));
	cr_assert_not(pg_stat_flags("", &flags));
}

static bool is_forked(void)
{
	char text[1024];
	uint64_t flags = 0;

	return pg_file_read_small_at(AT_FDCWD, "/proc/self/stat", text, sizeof(text)) > 0 &&
	       pg_stat_flags(text, &flags) && flags & PG_PROCESS_FORKED;
}

Test(process, forked)
{
	int status = 0;
	pid_t pid = fork();

	if (!pid)
		_exit(is_forked() ? 0 : 1);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0, "a child has executed nothing");
}
