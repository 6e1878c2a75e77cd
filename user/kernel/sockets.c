/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/sockets.h"

#include <errno.h>
#include <netinet/in.h>

#include "kernel/sockets_internal.h"

void pg_diag_list_clear(struct pg_diag_list *list)
{
	free(list->peers);
	free(list->own);
	*list = (struct pg_diag_list){0};
}

static int dump_all(struct pg_diag *diag, const struct pg_sockets_query *query,
		    struct pg_diag_list *list, struct pg_error *err)
{
	static const struct {
		int family, protocol;
	} dumps[] = {
		{AF_INET, IPPROTO_TCP},
		{AF_INET6, IPPROTO_TCP},
		{AF_INET, IPPROTO_UDP},
		{AF_INET6, IPPROTO_UDP},
	};

	for (size_t i = 0; i < PG_ARRAY_SIZE(dumps); i++) {
		int r = pg_diag_dump(diag, dumps[i].family, dumps[i].protocol, query, list, err);

		if (r < 0)
			return r;
	}
	return 0;
}

/* Asks the judge about every own socket. *ret_tcp counts the TCP ones among those to be closed. */
static size_t judge_all(const struct pg_sockets_query *query, struct pg_diag_list *list,
			size_t *ret_tcp)
{
	size_t pending = 0;

	*ret_tcp = 0;
	for (size_t i = 0; i < list->own_count; i++) {
		struct pg_diag_own *own = &list->own[i];

		own->pending = query->judge(query->userdata, &own->socket);
		pending += own->pending;
		*ret_tcp += own->pending && own->socket.protocol == IPPROTO_TCP;
	}
	return pending;
}

/*
 * Rounds over sockets that hide each other; more are left to the caller's next pass, so that a
 * workload cannot make one pass quadratic.
 */
#define DESTROY_ROUNDS 8

/* One round over what is pending. *ret_missed counts those that were not found. */
static int destroy_round(struct pg_diag *diag, const struct pg_sockets_query *query,
			 struct pg_diag_list *list, size_t *closed, size_t *ret_missed,
			 struct pg_error *err)
{
	*ret_missed = 0;
	for (size_t i = 0; i < list->own_count; i++) {
		struct pg_diag_own *own = &list->own[i];
		int r;

		if (!own->pending)
			continue;
		if (pg_sockets_is_over(query))
			return pg_fail(err, -ETIMEDOUT, "there was no time for all sockets");
		r = pg_diag_destroy(diag, own->family, own->socket.protocol, &own->id, err);
		if (r == -ENOENT) {
			++*ret_missed;
			continue;
		}
		if (r < 0)
			return r;
		own->pending = false;
		/*
		 * An orphan is destroyed for the data in its queue, which a later phase would let
		 * out, but it is not counted: there is no application to tell, and kernels that
		 * lack the fix of 2024 ("tcp: fix forever orphan socket caused by tcp_abort"; seen
		 * on 5.10.0-32) only purge its queue, so that every pass would find it again.
		 */
		if (!own->orphan)
			++*closed;
	}
	return 0;
}

/*
 * Sockets with the same addresses (UDP with SO_REUSEADDR) are found by the kernel one at a time:
 * the others appear when it is gone. A round without progress ends it; what is left then is gone,
 * or hidden behind a socket that is not ours to destroy.
 */
static int destroy_all(struct pg_diag *diag, const struct pg_sockets_query *query,
		       struct pg_diag_list *list, size_t pending, size_t *closed,
		       struct pg_error *err)
{
	size_t missed = pending;
	int r = 0;

	for (int round = 0; round < DESTROY_ROUNDS && missed > 0; round++) {
		pending = missed;
		r = destroy_round(diag, query, list, closed, &missed, err);
		if (r < 0 || missed == pending)
			break;
	}
	return r;
}

static int close_listed(struct pg_diag *diag, const struct pg_sockets_query *query,
			struct pg_diag_list *list, size_t *closed, struct pg_error *err)
{
	struct pg_diag_mptcp mptcp = {0};
	size_t tcp;
	const size_t pending = judge_all(query, list, &tcp);
	int r, restored;

	if (pending == 0)
		return 0;
	if (tcp > 0)
		pg_diag_mptcp_begin(diag, query, &mptcp);
	r = destroy_all(diag, query, list, pending, closed, err);
	restored = pg_diag_mptcp_end(diag, query, &mptcp, tcp, r < 0 ? NULL : err);
	return r < 0 ? r : restored;
}

int pg_sockets_close(const struct pg_sockets_query *query, size_t *ret_closed, struct pg_error *err)
{
	PG_CLEANUP(pg_diag_list_clear) struct pg_diag_list list = {0};
	PG_CLEANUP(pg_diag_close) struct pg_diag diag = PG_DIAG_CLOSED;
	size_t closed = 0;
	int r;

	*ret_closed = 0;
	r = pg_diag_open(&diag, query->netns_fd, err);
	if (r < 0)
		return r;
	r = dump_all(&diag, query, &list, err);
	if (r < 0)
		return r;
	if (list.own_count > 0) {
		r = pg_diag_find_peers(&list, err);
		if (r < 0)
			return r;
		r = close_listed(&diag, query, &list, &closed, err);
	}
	*ret_closed = closed;
	return r < 0 ? r : 0;
}
