/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing whole small files, with limits and errors that name the file. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "cleanup.h"
#include "error.h"

/*
 * Reads the whole of path ("-": standard input) into a fresh buffer that the caller frees; a NUL
 * that *ret_size does not count follows the content. -EFBIG if it holds more than limit bytes.
 */
int pg_file_read(const char *path, size_t limit, char **ret_data, size_t *ret_size,
		 struct pg_error *err) PG_MUST_CHECK;

/* The same of path below dir_fd, which is no symbolic link. */
int pg_file_read_at(int dir_fd, const char *path, size_t limit, char **ret_data, size_t *ret_size,
		    struct pg_error *err) PG_MUST_CHECK;

/* A small kernel file, whole, and a NUL; returns its size or -errno. */
ssize_t pg_file_read_small_at(int dir_fd, const char *path, char *buffer,
			      size_t size) PG_MUST_CHECK;

/*
 * The directory behind dir_fd for listing, with a descriptor and an offset of its own; the caller
 * closes it. NULL with errno set.
 */
DIR *pg_dir_reopen(int dir_fd) PG_MUST_CHECK;

/* -EPERM if others than this user may change what is in the directory; path is for the message. */
int pg_dir_refuse_shared(int dir_fd, const char *path, struct pg_error *err) PG_MUST_CHECK;

/* Writes text into an existing kernel file such as cgroup.procs, in one write. */
int pg_file_write_at(int dir_fd, const char *path, const char *text,
		     struct pg_error *err) PG_MUST_CHECK;
