/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

static char folder[] = "/tmp/phasegate-file-XXXXXX";
static char path[64];

static void make_folder(void)
{
	cr_assert(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/file", folder);
}

static void remove_folder(void)
{
	unlink(path);
	rmdir(folder);
}

TestSuite(file, .init = make_folder, .fini = remove_folder);

static void put(const char *text, size_t size)
{
	FILE *out = fopen(path, "w");

	cr_assert(out);
	cr_assert_eq(fwrite(text, 1, size, out), size);
	fclose(out);
}

Test(file, content_and_limit)
{
	pg_autofree char *data = NULL;
	struct pg_error err = {0};
	size_t size = 0;

	put("a\0b", 3);
	cr_assert_eq(pg_file_read(path, 3, &data, &size, &err), 0);
	cr_expect_eq(size, 3);
	cr_expect_eq(memcmp(data, "a\0b\0", 4), 0, "a NUL follows");
	size = 7;
	cr_expect_eq(pg_file_read(path, 2, &data, &size, &err), -EFBIG);
	cr_expect_eq(size, 7, "untouched");
	cr_expect(strstr(err.text, path), "%s", err.text);
}

Test(file, empty)
{
	pg_autofree char *data = NULL;
	size_t size = 1;

	put("", 0);
	cr_assert_eq(pg_file_read(path, 0, &data, &size, NULL), 0);
	cr_expect_eq(size, 0);
	cr_expect_eq(*data, '\0');
}

Test(file, kernel_file_without_a_size)
{
	pg_autofree char *data = NULL;
	size_t size;

	cr_assert_eq(pg_file_read("/proc/self/status", 1 << 20, &data, &size, NULL), 0);
	cr_expect_gt(size, 100);
}

Test(file, pipe_larger_than_the_first_buffer)
{
	const size_t total = 1000000;
	pg_autofree char *data = NULL;
	struct pg_error err = {0};
	size_t size;
	int ends[2];

	cr_assert_eq(pipe(ends), 0);
	if (fork() == 0) {
		close(ends[0]);
		for (size_t i = 0; i < total; i++) {
			if (write(ends[1], &"xyz"[i % 3], 1) != 1)
				_exit(1);
		}
		_exit(0);
	}
	close(ends[1]);
	dup2(ends[0], STDIN_FILENO);
	cr_assert_eq(pg_file_read("-", total, &data, &size, &err), 0);
	cr_expect_eq(size, total);
	cr_expect_eq(data[999999], 'x');
}

Test(file, faults_name_the_file)
{
	struct pg_error err = {0};
	char *data = NULL;
	size_t size;

	cr_expect_eq(pg_file_read(path, 1, &data, &size, &err), -ENOENT);
	cr_expect(strstr(err.text, path));
	cr_expect_eq(pg_file_read(folder, 1, &data, &size, &err), -EISDIR);
	cr_expect(strstr(err.text, folder));
	cr_expect_null(data);
}

Test(file, write_at)
{
	pg_autofree char *data = NULL;
	struct pg_error err = {0};
	size_t size;
	int dir;

	put("", 0);
	dir = open(folder, O_RDONLY | O_DIRECTORY);
	cr_assert_eq(pg_file_write_at(dir, "file", "123", &err), 0, "%s", err.text);
	cr_assert_eq(pg_file_read(path, 10, &data, &size, &err), 0);
	cr_expect_str_eq(data, "123");
	cr_expect_eq(pg_file_write_at(dir, "missing", "123", &err), -ENOENT);
	cr_expect(strstr(err.text, "missing"));
	close(dir);
}
