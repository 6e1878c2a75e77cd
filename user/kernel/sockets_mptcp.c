/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel (6.18 and before) destroys TCP sockets only, subflows of MPTCP sockets among them.
 * The MPTCP socket then stays open for net.mptcp.close_timeout seconds (60 by default; a sysctl
 * since 6.7), since it could still get another subflow, and its application sees nothing. With 0
 * at the moment when the last subflow goes, recv gives ENOTCONN and send EPIPE at once (measured
 * on 6.18). Best effort: where the value cannot be written (older kernels, /proc/sys read-only, a
 * lock on it), the application waits for the time-out; no packet of it leaves anyway.
 */
#include "kernel/sockets_internal.h"

#include <errno.h>
#include <linux/sock_diag.h>
#include <string.h>
#include <sys/file.h>

#include "base/clock.h"

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif

/* How long another's lock on close_timeout is waited for; Phasegate holds it for WORKER_MS. Not for
 * ever: whoever may open the file can lock it, the workload too. */
#define LOCK_MS 50

/* What the kernel's worker takes at most to end an MPTCP socket; measured: below 1 ms. */
#define WORKER_MS 20

struct count {
	const struct pg_sockets_query *query;
	size_t live;
};

static int count_one(const struct nlmsghdr *message, void *userdata)
{
	struct count *count = userdata;
	const struct nlattr *attr;

	if (mnl_nlmsg_get_payload_len(message) < sizeof(struct inet_diag_msg))
		return 0;
	mnl_attr_for_each (attr, message, sizeof(struct inet_diag_msg)) {
		if (mnl_attr_get_type(attr) == INET_DIAG_CGROUP_ID &&
		    mnl_attr_get_payload_len(attr) >= sizeof(uint64_t) &&
		    count->query->member(count->query->userdata, mnl_attr_get_u64(attr)))
			count->live++;
	}
	return 0;
}

/* Open MPTCP sockets of member cgroups; 0 as well where the kernel cannot list them. */
static size_t count_live(struct pg_diag *diag, const struct pg_sockets_query *query)
{
	static const uint8_t families[] = {AF_INET, AF_INET6};
	struct count count = {.query = query};

	for (size_t i = 0; i < PG_ARRAY_SIZE(families); i++) {
		const struct inet_diag_req_v2 request = {
			.sdiag_family = families[i],
			.idiag_states = UINT32_MAX & ~(1U << TCP_CLOSE | 1U << TCP_LISTEN),
		};
		struct nlmsghdr *message =
			pg_diag_start(diag, SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, &request);
		bool interrupted;

		/* The number does not fit into the request's own field. */
		mnl_attr_put_u32(message, INET_DIAG_REQ_PROTOCOL, IPPROTO_MPTCP);
		if (pg_diag_transact(diag, message, count_one, &count, &interrupted) < 0)
			return 0;
	}
	return count.live;
}

static bool lock_timeout(const struct pg_diag *diag)
{
	const struct timespec pause = {.tv_nsec = (long)PG_NSEC_PER_MSEC};

	for (int i = 0; flock(diag->mptcp_fd, LOCK_EX | LOCK_NB) < 0; i++) {
		if (i == LOCK_MS)
			return false;
		nanosleep(&pause, NULL);
	}
	return true;
}

void pg_diag_mptcp_begin(struct pg_diag *diag, const struct pg_sockets_query *query,
			 struct pg_diag_mptcp *ret_state)
{
	ssize_t got;

	*ret_state = (struct pg_diag_mptcp){0};
	if (diag->mptcp_fd < 0)
		return;
	ret_state->live = count_live(diag, query);
	if (ret_state->live == 0)
		return;
	/* Others that do the same here must not take the 0 for the value to restore. */
	if (!lock_timeout(diag))
		return;
	got = pread(diag->mptcp_fd, ret_state->timeout, sizeof(ret_state->timeout) - 1, 0);
	if (got <= 0 || pwrite(diag->mptcp_fd, "0\n", 2, 0) != 2)
		ret_state->timeout[0] = '\0';
}

int pg_diag_mptcp_end(struct pg_diag *diag, const struct pg_sockets_query *query,
		      const struct pg_diag_mptcp *state, size_t destroyed, struct pg_error *err)
{
	const struct timespec pause = {.tv_nsec = (long)PG_NSEC_PER_MSEC};
	const size_t size = strlen(state->timeout);
	/* At most so many end; fewer if some had several subflows, which costs the full wait. */
	const size_t ending = destroyed < state->live ? destroyed : state->live;

	if (size == 0)
		return 0;
	for (int i = 0; i < WORKER_MS && count_live(diag, query) > state->live - ending; i++)
		nanosleep(&pause, NULL);
	/* The close of the descriptor gives up the lock. */
	if (pwrite(diag->mptcp_fd, state->timeout, size, 0) != (ssize_t)size)
		return pg_fail_errno(err, -errno, "restoring net.mptcp.close_timeout to %s",
				     state->timeout);
	return 0;
}
