/* SPDX-License-Identifier: Apache-2.0 */
#include "links.h"

void pg_environment_visit_links(const struct pg_environment *environment, pg_link_visit visit,
				void *userdata)
{
	const struct pg_home *home;
	const struct pg_veth *veth;

	PG_VETH_FOREACH (environment->host->links, i, veth) {
		const struct pg_link_view view = {
			.network_namespace = veth->inode,
			.interface = veth->name,
			.device = veth->device[0] ? veth->device : NULL,
			.guard = veth->shared ? PG_LINK_GUARD_SHARED : PG_LINK_GUARD_ON,
		};

		if (veth->owner == environment)
			visit(userdata, &view);
	}
	LIST_FOREACH (home, &environment->homes, link) {
		for (size_t i = 0; home->links && i < home->links->count; i++) {
			const struct pg_open_link *open = &home->links->open[i];
			const struct pg_link_view view = {
				.network_namespace = home->inode,
				.interface = open->interface[0] ? open->interface : NULL,
				.device = open->device[0] ? open->device : NULL,
				.guard = PG_LINK_GUARD_NONE,
				.reason = open->reason,
			};

			visit(userdata, &view);
		}
	}
}

static void count(void *userdata, const struct pg_link_view *view)
{
	struct pg_links_summary *summary = userdata;

	switch (view->guard) {
	case PG_LINK_GUARD_ON:
		summary->on++;
		break;
	case PG_LINK_GUARD_SHARED:
		summary->shared++;
		break;
	case PG_LINK_GUARD_NONE:
		summary->none++;
		summary->host_network |= view->reason == PG_UNGUARDED_HOST_NETWORK;
		break;
	}
}

struct pg_links_summary pg_links_summary(const struct pg_environment *environment)
{
	struct pg_links_summary summary = {};

	pg_environment_visit_links(environment, count, &summary);
	return summary;
}

const char *pg_link_guard_name(enum pg_link_guard guard)
{
	static const char *const names[] = {
#define PG_X(symbol, name) [PG_LINK_GUARD_##symbol] = name,
		PG_LINK_GUARDS(PG_X)
#undef PG_X
	};

	return names[guard];
}

const char *pg_unguarded_name(enum pg_unguarded reason)
{
	static const char *const names[] = {
#define PG_X(symbol, name, text) [PG_UNGUARDED_##symbol] = name,
		PG_UNGUARDEDS(PG_X)
#undef PG_X
	};

	return names[reason];
}

const char *pg_unguarded_text(enum pg_unguarded reason)
{
	static const char *const texts[] = {
#define PG_X(symbol, name, text) [PG_UNGUARDED_##symbol] = text,
		PG_UNGUARDEDS(PG_X)
#undef PG_X
	};

	return texts[reason];
}
