/* SPDX-License-Identifier: Apache-2.0 */
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Longer messages (whole policies at DEBUG) are put together on the heap. */
#define LOG_LINE_STACK 1024

static const char *const level_names[] = {
	[PG_LOG_ERROR] = "error",
	[PG_LOG_WARNING] = "warning",
	[PG_LOG_INFO] = "info",
	[PG_LOG_DEBUG] = "debug",
};

static enum pg_log_level stderr_level = PG_LOG_WARNING;
static enum pg_log_level file_level = PG_LOG_ERROR;
static int file_fd = -1;
static pg_log_sink stderr_sink;
static void *stderr_userdata;

const char *pg_log_level_name(enum pg_log_level level)
{
	return level_names[level];
}

int pg_log_level_parse(const char *name, enum pg_log_level *ret_level)
{
	for (size_t i = 0; i < PG_ARRAY_SIZE(level_names); i++) {
		if (strcmp(name, level_names[i]) == 0) {
			*ret_level = (enum pg_log_level)i;
			return 0;
		}
	}
	return -EINVAL;
}

void pg_log_set_level(enum pg_log_level level)
{
	stderr_level = level;
}

void pg_log_set_sink(pg_log_sink sink, void *userdata)
{
	stderr_sink = sink;
	stderr_userdata = userdata;
}

int pg_log_open_file(const char *path, enum pg_log_level level, struct pg_error *err)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0640);

	if (fd < 0)
		return pg_fail_errno(err, -errno, "cannot open the log file %s", path);
	pg_log_close();
	file_fd = fd;
	file_level = level;
	return 0;
}

void pg_log_close(void)
{
	pg_close_fd(&file_fd);
}

bool pg_log_enabled(enum pg_log_level level)
{
	return level <= stderr_level || (file_fd >= 0 && level <= file_level);
}

/* One write per line, so that lines of several processes do not mix in an O_APPEND file. */
static void write_line(int fd, const char *prefix, const char *line, size_t size)
{
	char small[LOG_LINE_STACK + 64];
	pg_autofree char *large = NULL;
	size_t prefix_size = strlen(prefix);
	size_t total = prefix_size + size + 1;
	char *whole = small;

	if (total > sizeof(small)) {
		large = malloc(total);
		if (!large)
			return;
		whole = large;
	}
	memcpy(whole, prefix, prefix_size);
	memcpy(whole + prefix_size, line, size);
	whole[total - 1] = '\n';
	for (size_t done = 0; done < total;) {
		ssize_t written = write(fd, whole + done, total - done);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return;
		done += (size_t)written;
	}
}

/* A message must stay one line and must not drive a terminal: text from outside is in it. */
static void make_printable(char *line, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		unsigned char c = (unsigned char)line[i];

		if (c < 0x20 || c == 0x7f)
			line[i] = ' ';
	}
}

static void write_to_stderr(enum pg_log_level level, const char *line, size_t size)
{
	char prefix[64];

	if (stderr_sink) {
		stderr_sink(stderr_userdata, level, line);
		return;
	}
	snprintf(prefix, sizeof(prefix), "phasegate: %s: ", level_names[level]);
	write_line(STDERR_FILENO, prefix, line, size);
}

static void write_to_file(enum pg_log_level level, const char *line, size_t size)
{
	char prefix[64];
	struct timespec now;
	struct tm utc;
	size_t used;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &utc);
	used = strftime(prefix, sizeof(prefix), "%Y-%m-%dT%H:%M:%S", &utc);
	snprintf(prefix + used, sizeof(prefix) - used, ".%03ldZ %s ", now.tv_nsec / 1000000,
		 level_names[level]);
	write_line(file_fd, prefix, line, size);
}

void pg_log(enum pg_log_level level, const char *format, ...)
{
	int saved_errno = errno;
	char small[LOG_LINE_STACK];
	pg_autofree char *large = NULL;
	char *line = small;
	va_list args;
	int size;

	if (!pg_log_enabled(level))
		return;
	va_start(args, format);
	size = vsnprintf(small, sizeof(small), format, args);
	va_end(args);
	if (size < 0)
		return;
	if ((size_t)size >= sizeof(small)) {
		large = malloc((size_t)size + 1);
		if (large) {
			line = large;
			va_start(args, format);
			vsnprintf(large, (size_t)size + 1, format, args);
			va_end(args);
		} else {
			size = sizeof(small) - 1;
		}
	}
	make_printable(line, (size_t)size);
	if (level <= stderr_level)
		write_to_stderr(level, line, (size_t)size);
	if (file_fd >= 0 && level <= file_level)
		write_to_file(level, line, (size_t)size);
	errno = saved_errno;
}
