/* SPDX-License-Identifier: Apache-2.0 */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

/* First buffer for what does not tell its size: pipes and kernel files. */
#define READ_START 65536

static int read_all(int fd, const char *name, size_t limit, size_t expected, char **ret_data,
		    size_t *ret_size, struct pg_error *err)
{
	pg_autofree char *data = NULL;
	/* One byte more than the file has, so that its end is seen without growing; one for NUL. */
	size_t capacity = (expected ? expected + 1 : READ_START) + 1;
	size_t size = 0;

	data = malloc(capacity);
	if (!data)
		return pg_fail_errno(err, -ENOMEM, "cannot read %s", name);
	for (;;) {
		ssize_t got = read(fd, data + size, capacity - size - 1);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return pg_fail_errno(err, -errno, "cannot read %s", name);
		if (got == 0)
			break;
		size += (size_t)got;
		if (size > limit)
			return pg_fail(err, -EFBIG, "%s holds more than %zu bytes", name, limit);
		if (size == capacity - 1) {
			char *grown;

			capacity *= 2;
			grown = realloc(data, capacity);
			if (!grown)
				return pg_fail_errno(err, -ENOMEM, "cannot read %s", name);
			data = grown;
		}
	}
	data[size] = '\0';
	*ret_data = PG_TAKE_PTR(data);
	*ret_size = size;
	return 0;
}

/* Of an open file, which is no directory. */
static int read_opened(int fd, const char *path, size_t limit, char **ret_data, size_t *ret_size,
		       struct pg_error *err)
{
	struct stat status;
	size_t expected = 0;

	if (fstat(fd, &status) < 0)
		return pg_fail_errno(err, -errno, "cannot read %s", path);
	if (S_ISDIR(status.st_mode))
		return pg_fail_errno(err, -EISDIR, "cannot read %s", path);
	if (S_ISREG(status.st_mode) && status.st_size > 0) {
		if ((uintmax_t)status.st_size > limit)
			return pg_fail(err, -EFBIG, "%s holds more than %zu bytes", path, limit);
		expected = (size_t)status.st_size;
	}
	return read_all(fd, path, limit, expected, ret_data, ret_size, err);
}

int pg_file_read(const char *path, size_t limit, char **ret_data, size_t *ret_size,
		 struct pg_error *err)
{
	pg_autoclose int opened = -1;

	if (strcmp(path, "-") == 0)
		return read_all(STDIN_FILENO, "standard input", limit, 0, ret_data, ret_size, err);
	opened = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (opened < 0)
		return pg_fail_errno(err, -errno, "cannot open %s", path);
	return read_opened(opened, path, limit, ret_data, ret_size, err);
}

int pg_file_read_at(int dir_fd, const char *path, size_t limit, char **ret_data, size_t *ret_size,
		    struct pg_error *err)
{
	pg_autoclose int opened =
		openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW);

	if (opened < 0)
		return pg_fail_errno(err, -errno, "cannot open %s", path);
	return read_opened(opened, path, limit, ret_data, ret_size, err);
}

int pg_dir_refuse_shared(int dir_fd, const char *path, struct pg_error *err)
{
	struct stat status;

	if (fstat(dir_fd, &status) < 0)
		return pg_fail_errno(err, -errno, "looking at the directory %s", path);
	if (status.st_uid == geteuid() && !(status.st_mode & (S_IWGRP | S_IWOTH)))
		return 0;
	return pg_fail(
		err, -EPERM,
		"others can change what is in %s (owner %u, mode %04o): remove it, or give it"
		" to user %u with mode 0700",
		path, status.st_uid, status.st_mode & 07777U, geteuid());
}

int pg_file_write_at(int dir_fd, const char *path, const char *text, struct pg_error *err)
{
	pg_autoclose int fd = openat(dir_fd, path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	size_t size = strlen(text);
	ssize_t written;

	if (fd < 0)
		return pg_fail_errno(err, -errno, "cannot open %s for writing", path);
	do {
		written = write(fd, text, size);
	} while (written < 0 && errno == EINTR);
	if (written < 0)
		return pg_fail_errno(err, -errno, "cannot write \"%s\" into %s", text, path);
	if ((size_t)written != size)
		return pg_fail(err, -EIO, "%s took only %zd of %zu bytes", path, written, size);
	return 0;
}

ssize_t pg_file_read_small_at(int dir_fd, const char *path, char *buffer, size_t size)
{
	pg_autoclose int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
	ssize_t got;

	if (fd < 0)
		return -errno;
	got = read(fd, buffer, size - 1);
	if (got < 0)
		return -errno;
	buffer[got] = '\0';
	return got;
}

DIR *pg_dir_reopen(int dir_fd)
{
	pg_autoclose int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (dir)
		fd = -1; /* the stream owns it now */
	return dir;
}
