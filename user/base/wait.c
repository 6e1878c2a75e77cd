/* SPDX-License-Identifier: Apache-2.0 */
#include "wait.h"

#include <errno.h>
#include <poll.h>

int pg_wait_readable(int fd, int interrupt_fd, int timeout_ms)
{
	/* poll(2) passes over negative descriptors. */
	struct pollfd events[] = {
		{.fd = interrupt_fd, .events = POLLIN},
		{.fd = fd, .events = POLLIN},
	};

	if (poll(events, PG_ARRAY_SIZE(events), timeout_ms) < 0)
		return errno == EINTR ? 0 : -errno;
	if (events[0].revents)
		return -ECANCELED;
	return events[1].revents != 0;
}
