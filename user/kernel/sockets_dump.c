/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the dumps of inet_diag. */
#include "kernel/sockets_internal.h"

#include <errno.h>
#include <linux/sock_diag.h>
#include <string.h>

#include "base/vector.h"

/* A dump that the kernel calls inconsistent is repeated so many times, then taken as it is: the
 * caller's next pass sees what it missed. */
#define DUMP_TRIES 4

#define STATE(name) (1U << TCP_##name)
#define TCP_STATES \
	(STATE(ESTABLISHED) | STATE(SYN_SENT) | STATE(SYN_RECV) | STATE(FIN_WAIT1) | \
	 STATE(FIN_WAIT2) | STATE(CLOSE_WAIT) | STATE(LAST_ACK) | STATE(CLOSING) | STATE(LISTEN))
#define UDP_STATES (STATE(ESTABLISHED) | STATE(CLOSE))

struct dump {
	const struct pg_sockets_query *query;
	struct pg_diag_list *list;
	int protocol;
	/* The last answer of query->member; neighbours in a dump often share their cgroup. */
	uint64_t asked;
	bool answer, answered;
};

static bool is_member(struct dump *dump, uint64_t cgroup_id)
{
	if (!dump->answered || dump->asked != cgroup_id) {
		dump->answer = dump->query->member(dump->query->userdata, cgroup_id);
		dump->asked = cgroup_id;
		dump->answered = true;
	}
	return dump->answer;
}

static struct pg_addr read_addr(uint8_t family, const __be32 word[4])
{
	struct pg_addr addr;

	if (family == AF_INET)
		return pg_addr_from_v4(word[0]);
	memcpy(&addr, word, sizeof(addr));
	return addr;
}

/* The first element of one list of attributes that has the type and at least size octets. */
static const struct nlattr *find_nested(const struct nlattr *parent, uint16_t type, size_t size)
{
	const struct nlattr *attr;

	if (!parent)
		return NULL;
	mnl_attr_for_each_nested (attr, parent)
		if (mnl_attr_get_type(attr) == type && mnl_attr_get_payload_len(attr) >= size)
			return attr;
	return NULL;
}

/* The attributes of an answer that are of use here; NULL if absent. */
struct attributes {
	const struct nlattr *cgroup_id, *v6only, *storages;
};

static struct attributes read_attributes(const struct nlmsghdr *message)
{
	struct attributes found = {0};
	const struct nlattr *attr;

	mnl_attr_for_each (attr, message, sizeof(struct inet_diag_msg)) {
		uint16_t size = mnl_attr_get_payload_len(attr);

		switch (mnl_attr_get_type(attr)) {
		case INET_DIAG_CGROUP_ID:
			found.cgroup_id = size >= sizeof(uint64_t) ? attr : NULL;
			break;
		case INET_DIAG_SKV6ONLY:
			found.v6only = size >= sizeof(uint8_t) ? attr : NULL;
			break;
		case INET_DIAG_SK_BPF_STORAGES:
			found.storages = attr;
			break;
		}
	}
	return found;
}

/* Only one map was asked for, so the first storage is the mark. */
static struct pg_mark read_mark(const struct nlattr *storages)
{
	const struct nlattr *storage = find_nested(storages, SK_DIAG_BPF_STORAGE, 0);
	const struct nlattr *value =
		find_nested(storage, SK_DIAG_BPF_STORAGE_MAP_VALUE, sizeof(struct pg_mark));
	struct pg_mark mark = {.kind = PG_MARK_NONE};

	if (value)
		memcpy(&mark, mnl_attr_get_payload(value), sizeof(mark));
	return mark;
}

/* Closed by its application: only then has a socket in these states no inode. */
static bool is_orphan(const struct inet_diag_msg *info, int protocol)
{
	return protocol == IPPROTO_TCP && info->idiag_inode == 0 &&
	       (1U << info->idiag_state) &
		       (STATE(FIN_WAIT1) | STATE(FIN_WAIT2) | STATE(LAST_ACK) | STATE(CLOSING));
}

static int add_own(struct dump *dump, const struct inet_diag_msg *info,
		   const struct pg_diag_peer *peer, const struct attributes *attrs)
{
	struct pg_diag_list *list = dump->list;
	int r = pg_vector_grow(&list->own, list->own_count, &list->own_room, sizeof(*list->own));

	if (r < 0)
		return r;
	list->own[list->own_count++] = (struct pg_diag_own){
		.socket =
			{
				.protocol = peer->protocol,
				.state = info->idiag_state,
				.local = {.addr = peer->local, .port = peer->local_port},
				.remote = {.addr = peer->remote, .port = peer->remote_port},
				.cgroup_id = peer->cgroup_id,
				.cookie = (uint64_t)info->id.idiag_cookie[1] << 32 |
					  info->id.idiag_cookie[0],
				.mark = read_mark(attrs->storages),
			},
		.id = info->id,
		.family = info->idiag_family,
		.orphan = is_orphan(info, dump->protocol),
	};
	return 0;
}

static int add_socket(const struct nlmsghdr *message, void *userdata)
{
	struct dump *dump = userdata;
	struct pg_diag_list *list = dump->list;
	const struct inet_diag_msg *info = mnl_nlmsg_get_payload(message);
	struct attributes attrs;
	struct pg_diag_peer peer = {.protocol = (uint8_t)dump->protocol};
	int r;

	if (pg_sockets_is_over(dump->query))
		return -ETIMEDOUT;
	if (mnl_nlmsg_get_payload_len(message) < sizeof(*info))
		return 0;
	attrs = read_attributes(message);
	/* Request and TIME_WAIT sockets have none: they belong to no process. */
	if (!attrs.cgroup_id)
		return 0;
	peer.cgroup_id = mnl_attr_get_u64(attrs.cgroup_id);
	peer.local = read_addr(info->idiag_family, info->id.idiag_src);
	peer.local_port = info->id.idiag_sport;
	peer.connected = info->idiag_state != TCP_LISTEN && info->idiag_state != TCP_CLOSE;
	if (peer.connected) {
		peer.remote = read_addr(info->idiag_family, info->id.idiag_dst);
		peer.remote_port = info->id.idiag_dport;
	} else if (attrs.v6only) {
		static const struct pg_addr any = {0};

		peer.v6only =
			mnl_attr_get_u8(attrs.v6only) && pg_addr_compare(&peer.local, &any) == 0;
	}
	r = pg_vector_grow(&list->peers, list->peer_count, &list->peer_room, sizeof(*list->peers));
	if (r < 0)
		return r;
	list->peers[list->peer_count++] = peer;
	if (!peer.connected || !is_member(dump, peer.cgroup_id))
		return 0;
	return add_own(dump, info, &peer, &attrs);
}

int pg_diag_dump(struct pg_diag *diag, int family, int protocol,
		 const struct pg_sockets_query *query, struct pg_diag_list *list,
		 struct pg_error *err)
{
	const struct inet_diag_req_v2 request = {
		.sdiag_family = (uint8_t)family,
		.sdiag_protocol = (uint8_t)protocol,
		.idiag_states = protocol == IPPROTO_TCP ? TCP_STATES : UDP_STATES,
	};
	struct dump dump = {.query = query, .list = list, .protocol = protocol};
	const size_t peer_count = list->peer_count, own_count = list->own_count;
	bool interrupted = true;

	for (int try = 0; interrupted && try < DUMP_TRIES; try++) {
		struct nlmsghdr *message =
			pg_diag_start(diag, SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, &request);
		struct nlattr *nest = mnl_attr_nest_start(message, INET_DIAG_REQ_SK_BPF_STORAGES);
		int r;

		mnl_attr_put_u32(message, SK_DIAG_BPF_STORAGE_REQ_MAP_FD,
				 (uint32_t)query->mark_map_fd);
		mnl_attr_nest_end(message, nest);
		list->peer_count = peer_count;
		list->own_count = own_count;
		r = pg_diag_transact(diag, message, add_socket, &dump, &interrupted);
		if (r < 0)
			return pg_diag_explain(r, protocol, "dump of", err);
	}
	return 0;
}
