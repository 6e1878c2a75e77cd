/* SPDX-License-Identifier: Apache-2.0 */
/* phasegate seccomp: a profile for containers. */
#include "command.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "sandbox/profile.h"

#define DEFAULT_BASE "/usr/share/containers/seccomp.json"

static void print_help(void)
{
	fputs("usage: phasegate seccomp [BASE|-] [OPTION]...\n"
	      "\n"
	      "Prints the seccomp profile BASE without what gets around the hooks of a cgroup: "
	      "all\n"
	      "sockets but those of AF_UNIX, AF_INET, AF_INET6 and AF_NETLINK, bpf, io_uring,\n"
	      "request_key, and 32-bit calls. It allows nothing that BASE does not allow.\n"
	      "\n"
	      "  BASE                      a profile of Docker's or Podman's, or the config.json "
	      "of\n"
	      "                            a container, whose profile is taken; default\n"
	      "                            " DEFAULT_BASE ", which is Podman's;\n"
	      "                            phasegate(1) says where that of Docker is\n"
	      "  --log-level LEVEL         error, warning (default), info or debug\n"
	      "  --log-file FILE           append log messages to FILE\n"
	      "  --file-log-level LEVEL    level of that file (default debug)\n"
	      "\n"
	      "Exit status: 0 printed; 2 BASE cannot be read or is no profile.\n",
	      stdout);
}

static int parse(int argc, char **argv, const char **ret_base, bool *ret_help, struct pg_error *err)
{
	static const struct option long_options[] = {PG_COMMON_OPTIONS, {}};
	int option, error = 0;

	while (!error && (option = pg_next_option(argc, argv, "", long_options, err)) != -1) {
		if (option == PG_OPTION_HELP)
			*ret_help = true;
		else
			error = option < 0 ? option : pg_common_option(option, optarg, err);
	}
	if (error)
		return error;
	if (argc - optind > 1)
		return pg_fail(err, -EINVAL,
			       "seccomp takes one BASE; phasegate seccomp --help explains");
	if (optind < argc)
		*ret_base = argv[optind];
	return pg_common_options_done(err);
}

static int print_profile(const char *base, struct pg_error *err)
{
	pg_autofree char *text = NULL, *profile = NULL;
	size_t size;
	int error =
		pg_file_read(base ? base : DEFAULT_BASE, PG_PROFILE_SIZE_MAX, &text, &size, err);

	if (error == -ENOENT && !base)
		return pg_fail(err, error,
			       "there is no " DEFAULT_BASE ", which comes with Podman: name a"
			       " profile, or the config.json of a container, whose path"
			       " phasegate(1) has");
	if (error)
		return error;
	error = pg_profile_restrict(text, size, &profile, err);
	if (error)
		return pg_error_prefix(err, "%s",
				       !base		   ? DEFAULT_BASE
				       : strcmp(base, "-") ? base
							   : "standard input");
	return puts(profile) < 0 || fflush(stdout) ? pg_fail_errno(err, -errno, "printing") : 0;
}

int pg_command_seccomp(int argc, char **argv)
{
	const char *base = NULL;
	struct pg_error err = {};
	bool help = false;
	int error = parse(argc, argv, &base, &help, &err);

	if (!error && help) {
		print_help();
		return PG_EXIT_OK;
	}
	if (!error)
		error = print_profile(base, &err);
	if (error) {
		pg_log_error("%s", err.text);
		return PG_EXIT_USAGE;
	}
	return PG_EXIT_OK;
}
