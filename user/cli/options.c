/* SPDX-License-Identifier: Apache-2.0 */
#include "command.h"

#include <errno.h>
#include <stdio.h>

#include "base/log.h"

/* What --log-file and --file-log-level said, until all options are read. */
static const char *log_file;
static enum pg_log_level file_level = PG_LOG_DEBUG;

int pg_next_option(int argc, char **argv, const char *mode, const struct option *options,
		   struct pg_error *err)
{
	char letters[4];
	int option;

	snprintf(letters, sizeof(letters), "%s:h", mode);
	opterr = 0;
	option = getopt_long(argc, argv, letters, options, NULL);
	switch (option) {
	case 'h':
		return PG_OPTION_HELP;
	case ':':
		return pg_fail(err, -EINVAL, "%s: %s needs a value; phasegate %s --help explains",
			       argv[0], argv[optind - 1], argv[0]);
	case '?':
		/* One letter of several, or a long option that is unknown, short for two, or has a
		 * value that it does not take. */
		if (optopt > 0 && optopt < PG_OPTION_LOG_LEVEL)
			return pg_fail(err, -EINVAL,
				       "%s: there is no option -%c; phasegate %s --help explains",
				       argv[0], optopt, argv[0]);
		return pg_fail(err, -EINVAL, "%s: %s %s; phasegate %s --help explains", argv[0],
			       optopt ? "no value is taken in" : "there is no option",
			       argv[optind - 1], argv[0]);
	default:
		return option;
	}
}

static int parse_level(const char *option, const char *value, enum pg_log_level *ret_level,
		       struct pg_error *err)
{
	if (pg_log_level_parse(value, ret_level) == 0)
		return 0;
	return pg_fail(err, -EINVAL, "%s is error, warning, info or debug, not \"%s\"", option,
		       value);
}

int pg_common_option(int option, const char *value, struct pg_error *err)
{
	enum pg_log_level level;
	int result;

	switch (option) {
	case PG_OPTION_LOG_LEVEL:
		result = parse_level("--log-level", value, &level, err);
		if (result == 0)
			pg_log_set_level(level);
		return result;
	case PG_OPTION_LOG_FILE:
		log_file = value;
		return 0;
	case PG_OPTION_FILE_LOG_LEVEL:
		return parse_level("--file-log-level", value, &file_level, err);
	default:
		return pg_fail(err, -EINVAL, "an option is not handled");
	}
}

int pg_common_options_done(struct pg_error *err)
{
	return log_file ? pg_log_open_file(log_file, file_level, err) : 0;
}
