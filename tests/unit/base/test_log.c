/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"

static char path[] = "/tmp/phasegate-log-XXXXXX";

static void make_file(void)
{
	close(mkstemp(path));
}

static void remove_file(void)
{
	pg_log_close();
	unlink(path);
}

TestSuite(log, .init = make_file, .fini = remove_file);

Test(log, levels)
{
	enum pg_log_level level = PG_LOG_DEBUG;

	cr_expect_eq(pg_log_level_parse("error", &level), 0);
	cr_expect_eq(level, PG_LOG_ERROR);
	cr_expect_eq(pg_log_level_parse("ERROR", &level), -EINVAL);
	cr_expect_eq(level, PG_LOG_ERROR);
	cr_expect(pg_log_enabled(PG_LOG_WARNING), "the level until one is set");
	cr_expect_not(pg_log_enabled(PG_LOG_INFO));
	pg_log_set_level(PG_LOG_ERROR);
	cr_expect_not(pg_log_enabled(PG_LOG_WARNING));
	cr_assert_eq(pg_log_open_file(path, PG_LOG_INFO, NULL), 0);
	cr_expect(pg_log_enabled(PG_LOG_INFO));
	cr_expect_not(pg_log_enabled(PG_LOG_DEBUG));
	pg_log_close();
	cr_expect_not(pg_log_enabled(PG_LOG_INFO));
}

Test(log, one_line_a_message)
{
	pg_autofree char *text = NULL, *huge = malloc(100001);
	size_t size;

	memset(huge, 'x', 100000);
	huge[100000] = '\0';
	pg_log_set_level(PG_LOG_ERROR);
	cr_assert_eq(pg_log_open_file(path, PG_LOG_INFO, NULL), 0);
	errno = EAGAIN;
	pg_log_info("first\n\x1b[31mline %d", 1);
	cr_expect_eq(errno, EAGAIN, "errno is kept");
	pg_log_debug("not this");
	pg_log_warning("%s", huge);
	pg_log_close();
	cr_assert_eq(pg_file_read(path, 1 << 20, &text, &size, NULL), 0);
	cr_expect(strstr(text, "Z info first  [31mline 1\n"), "%.80s", text);
	cr_expect_not(strstr(text, "not this"));
	cr_expect(strstr(text, huge), "long messages are whole");
}

static void keep(void *userdata, enum pg_log_level level, const char *message)
{
	snprintf(userdata, 64, "%s %s", pg_log_level_name(level), message);
}

Test(log, sink_instead_of_standard_error)
{
	char kept[64] = "";

	pg_log_set_level(PG_LOG_WARNING);
	pg_log_set_sink(keep, kept);
	pg_log_warning("one\ntwo");
	pg_log_info("not this");
	cr_expect_str_eq(kept, "warning one two");
	pg_log_set_sink(NULL, NULL);
	pg_log_error("a plain line");
	cr_expect_str_eq(kept, "warning one two");
}

Test(log, file_that_cannot_be_opened)
{
	struct pg_error err = {0};

	cr_expect_eq(pg_log_open_file("/nonexistent/log", PG_LOG_INFO, &err), -ENOENT);
	cr_expect(strstr(err.text, "/nonexistent/log"));
}
