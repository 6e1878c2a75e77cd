/* SPDX-License-Identifier: Apache-2.0 */
#include "descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* Whether that many can be had; they are given back. */
static bool are_there(int any, size_t count)
{
	pg_autofree int *fds = calloc(count, sizeof(*fds));
	size_t taken = 0;

	while (fds && taken < count) {
		fds[taken] = fcntl(any, F_DUPFD_CLOEXEC, 0);
		if (fds[taken] < 0)
			break;
		taken++;
	}
	for (size_t i = 0; i < taken; i++)
		close(fds[i]);
	return taken == count;
}

int pg_descriptors_check(const struct pg_agent *agent, size_t count, const char *object,
			 struct pg_reply *reply)
{
	if (are_there(agent->works.event_fd, count))
		return 0;
	return pg_reply_error(reply, PG_API_OUT_OF_MEMORY, object,
			      "close connections, destroy Environments, or raise LimitNOFILE= of"
			      " phasegated.service",
			      "the agent has too few descriptors left");
}
