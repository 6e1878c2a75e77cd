/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sockets of listeners, kept elsewhere for the next owner (pg_host_options.store): a query that
 * comes while there is none is not refused, but waits for it.
 */
#include <inttypes.h>

#include "dns.h"

/* Inodes of namespaces are not used again while a socket there is kept. */
static void make_name(const struct pg_site *site, unsigned int number, char *name, size_t room)
{
	snprintf(name, room, PG_STORE_NAME "%" PRIu64 "-%u-%s", site->inode, number,
		 site->dns->environment->record.name);
}

void pg_site_take_sockets(const struct pg_site *site, int sockets[PG_LISTENER_SOCKETS])
{
	const struct pg_host *host = site->dns->environment->host;
	char name[PG_STORE_NAME_MAX];

	for (unsigned int i = 0; i < PG_LISTENER_SOCKETS; i++) {
		make_name(site, i, name, sizeof(name));
		sockets[i] = host->store ? host->store->take(host->userdata, name) : -1;
	}
}

void pg_site_keep_sockets(const struct pg_site *site)
{
	const struct pg_host *host = site->dns->environment->host;
	char name[PG_STORE_NAME_MAX];

	for (unsigned int i = 0; host->store && i < PG_LISTENER_SOCKETS; i++) {
		const int fd = pg_listener_socket(site->listener, i);

		make_name(site, i, name, sizeof(name));
		if (fd >= 0)
			host->store->keep(host->userdata, name, fd);
	}
}

void pg_site_drop_sockets(const struct pg_site *site)
{
	const struct pg_host *host = site->dns->environment->host;
	char name[PG_STORE_NAME_MAX];

	for (unsigned int i = 0; host->store && i < PG_LISTENER_SOCKETS; i++) {
		make_name(site, i, name, sizeof(name));
		host->store->drop(host->userdata, name);
	}
}
