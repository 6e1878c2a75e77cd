/* SPDX-License-Identifier: Apache-2.0 */
/* The host agent's program: options, settings, log. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/log.h"
#include "environment/host.h"
#include "kernel/probe.h"

/* Exit statuses, as in docs/phasegated.8.md. */
enum status {
	STATUS_OK = 0,
	STATUS_FAILURE = 1,
	STATUS_USAGE = 2, /* a bad option or bad settings */
};

enum option_value {
	OPTION_CONFIG = 0x100,
	OPTION_SOCKET,
	OPTION_PINS,
	OPTION_CHECK,
	OPTION_LOG_LEVEL,
	OPTION_LOG_FILE,
};

static const struct option long_options[] = {
	{"config", required_argument, NULL, OPTION_CONFIG},
	{"socket", required_argument, NULL, OPTION_SOCKET},
	{"pins", required_argument, NULL, OPTION_PINS},
	{"check", no_argument, NULL, OPTION_CHECK},
	{"log-level", required_argument, NULL, OPTION_LOG_LEVEL},
	{"log-file", required_argument, NULL, OPTION_LOG_FILE},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{0},
};

static void print_help(void)
{
	fputs("usage: phasegated [--config FILE] [--socket PATH] [--pins DIRECTORY] [--check]\n"
	      "                  [--log-level LEVEL] [--log-file FILE]\n"
	      "\n"
	      "Serves the API through which Environments are made, switched and destroyed.\n"
	      "\n"
	      "  --config FILE       settings (default " PG_CONFIG_FILE ", which may\n"
	      "                      be missing)\n"
	      "  --socket PATH       where to listen (default " PG_AGENT_SOCKET ")\n"
	      "  --pins DIRECTORY    where on the BPF file system the kernel's objects are\n"
	      "  --check             read the settings, try what the kernel offers, and end\n"
	      "  --log-level LEVEL   error, warning, info (default) or debug\n"
	      "  --log-file FILE     append log messages to FILE as well\n"
	      "  -V, --version       print the version\n"
	      "\n"
	      "Exit status: 0 it was stopped, 1 it failed, 2 an option or setting is wrong.\n",
	      stdout);
}

struct options {
	const char *config, *socket, *pins, *log_file;
	bool check, has_level;
	enum pg_log_level level;
};

/* -ECANCELED: all that was asked for has been printed. */
static int parse_option(struct options *options, int option, const char *value,
			struct pg_error *err)
{
	switch (option) {
	case OPTION_CONFIG:
		options->config = value;
		return 0;
	case OPTION_SOCKET:
		options->socket = value;
		return 0;
	case OPTION_PINS:
		options->pins = value;
		return 0;
	case OPTION_CHECK:
		options->check = true;
		return 0;
	case OPTION_LOG_LEVEL:
		options->has_level = true;
		if (pg_log_level_parse(value, &options->level) < 0)
			return pg_fail(err, -EINVAL,
				       "--log-level %s: the levels are error, warning, info and"
				       " debug",
				       value);
		return 0;
	case OPTION_LOG_FILE:
		options->log_file = value;
		return 0;
	case 'h':
		print_help();
		return -ECANCELED;
	case 'V':
		puts("phasegated " PG_VERSION);
		return -ECANCELED;
	default:
		return pg_fail(err, -EINVAL, "phasegated --help lists the options");
	}
}

static int parse_options(struct options *options, int argc, char **argv, struct pg_error *err)
{
	int option, error = 0;

	while (!error && (option = getopt_long(argc, argv, "hV", long_options, NULL)) != -1)
		error = parse_option(options, option, optarg, err);
	if (!error && optind < argc)
		error = pg_fail(err, -EINVAL, "%s: phasegated takes no arguments", argv[optind]);
	return error;
}

static int set_path(char **path, const char *by, const char *option, struct pg_error *err)
{
	if (!by)
		return 0;
	if (*by != '/')
		return pg_fail(err, -EINVAL, "%s %s: an absolute path is needed", option, by);
	free(*path);
	*path = strdup(by);
	return *path ? 0 : pg_fail(err, -ENOMEM, "no memory for a path");
}

static int read_settings(const struct options *options, struct pg_config *config,
			 struct pg_error *err)
{
	int error = pg_config_init(config, err);

	if (!error)
		error = pg_config_read(config, options->config ? options->config : PG_CONFIG_FILE,
				       options->config, err);
	if (!error)
		error = set_path(&config->socket, options->socket, "--socket", err);
	if (!error)
		error = set_path(&config->pins, options->pins, "--pins", err);
	if (!error && options->has_level)
		config->log_level = options->level;
	return error;
}

/* Standard error is the journal: it reads the level from the line and has the time itself. */
static void log_to_journal(void *userdata, enum pg_log_level level, const char *message)
{
	static const char *const prefixes[] = {
		[PG_LOG_ERROR] = SD_ERR,
		[PG_LOG_WARNING] = SD_WARNING,
		[PG_LOG_INFO] = SD_INFO,
		[PG_LOG_DEBUG] = SD_DEBUG,
	};

	fprintf(stderr, "%s%s\n", prefixes[level], message);
}

static void log_to_stderr(void *userdata, enum pg_log_level level, const char *message)
{
	fprintf(stderr, "phasegated: %s: %s\n", pg_log_level_name(level), message);
}

static bool is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat file;

	return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 &&
	       fstat(STDERR_FILENO, &file) == 0 && file.st_dev == device && file.st_ino == inode;
}

static int open_log(const struct options *options, const struct pg_config *config,
		    struct pg_error *err)
{
	pg_log_set_level(config->log_level);
	if (!options->log_file)
		return 0;
	return pg_log_open_file(options->log_file, config->log_level, err);
}

/* What an operator asks first of a log. */
static void log_start(const struct options *options)
{
	const char *file = options->config ? options->config : PG_CONFIG_FILE;

	pg_log_info("version " PG_VERSION ", settings: %s%s", file,
		    options->config || !access(file, F_OK) ? "" : " (none there)");
}

/* What is needed and not there fails, and is said then. */
static void warn(void *userdata, const struct pg_probe_report *report)
{
	if (report->result == PG_PROBE_WARNING)
		pg_log_warning("%s: %s; %s", report->name, report->detail, report->advice);
}

static int run(const struct options *options, const struct pg_config *config, struct pg_error *err)
{
	if (!options->check) {
		log_start(options);
		return pg_agent_run(config, err);
	}
	if (pg_probe_all(warn, NULL, err) < 0 || pg_host_check_pins(config->pins, err) < 0)
		return err->number;
	puts("phasegated: the settings are valid, and this host can enforce policies");
	return 0;
}

int main(int argc, char **argv)
{
	pg_autoconfig struct pg_config config = {0};
	struct options options = {0};
	struct pg_error err = {};
	int error;

	setvbuf(stderr, NULL, _IOLBF, BUFSIZ);
	pg_log_set_sink(is_journal() ? log_to_journal : log_to_stderr, NULL);
	error = parse_options(&options, argc, argv, &err);
	if (error == -ECANCELED)
		return STATUS_OK;
	if (!error)
		error = read_settings(&options, &config, &err);
	if (!error)
		error = open_log(&options, &config, &err);
	if (error) {
		pg_log_error("%s", err.text);
		return STATUS_USAGE;
	}
	if (run(&options, &config, &err) < 0) {
		pg_log_error("%s", err.text);
		return STATUS_FAILURE;
	}
	return STATUS_OK;
}
