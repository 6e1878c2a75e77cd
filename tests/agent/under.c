/* SPDX-License-Identifier: Apache-2.0 */
/*
 * under UNIT COMMAND...: executes the command with only the system calls that the SystemCallFilter
 * of the unit has, as systemd would. Any other ends it by SIGSYS.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "sandbox/service.h"

#define KEY	  "SystemCallFilter="
#define CALLS_MAX 512

static size_t read_calls(const char *unit, char *line, size_t size, const char **calls)
{
	pg_autofclose FILE *file = fopen(unit, "re");
	size_t count = 0;

	while (file && fgets(line, (int)size, file)) {
		char *rest = line + strlen(KEY);

		if (strncmp(line, KEY, strlen(KEY)) != 0)
			continue;
		for (char *name; count < CALLS_MAX && (name = strsep(&rest, " \n"));)
			if (*name)
				calls[count++] = name;
		break;
	}
	return count;
}

int main(int argc, char **argv)
{
	static char line[65536];
	const char *calls[CALLS_MAX];
	struct pg_error err = {};
	size_t count;

	if (argc < 3)
		return 2;
	count = read_calls(argv[1], line, sizeof(line), calls);
	if (!count) {
		fprintf(stderr, "%s: no %s\n", argv[1], KEY);
		return 2;
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || pg_service_confine(calls, count, &err)) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	execvp(argv[2], argv + 2);
	fprintf(stderr, "%s: %s\n", argv[2], strerror(errno));
	return 1;
}
