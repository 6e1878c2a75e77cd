/* SPDX-License-Identifier: Apache-2.0 */
#include "command.h"

#include <errno.h>
#include <stdio.h>

#include "base/log.h"

/* What --log-file and --file-log-level said, until all options are read. */
static const char *log_file;
static enum pg_log_level file_level = PG_LOG_DEBUG;

static int parse_level(const char *option, const char *value, enum pg_log_level *ret_level)
{
	if (pg_log_level_parse(value, ret_level) == 0)
		return 0;
	fprintf(stderr, "phasegate: %s is error, warning, info or debug, not \"%s\"\n", option,
		value);
	return -EINVAL;
}

int pg_common_option(int option, const char *value)
{
	enum pg_log_level level;
	int result;

	switch (option) {
	case PG_OPTION_LOG_LEVEL:
		result = parse_level("--log-level", value, &level);
		if (result == 0)
			pg_log_set_level(level);
		return result;
	case PG_OPTION_LOG_FILE:
		log_file = value;
		return 0;
	case PG_OPTION_FILE_LOG_LEVEL:
		return parse_level("--file-log-level", value, &file_level);
	default:
		/* getopt_long(3) has said what is wrong already. */
		return -EINVAL;
	}
}

int pg_common_options_done(void)
{
	struct pg_error err = {0};
	int result;

	if (!log_file)
		return 0;
	result = pg_log_open_file(log_file, file_level, &err);
	if (result < 0)
		fprintf(stderr, "phasegate: %s\n", err.text);
	return result;
}
