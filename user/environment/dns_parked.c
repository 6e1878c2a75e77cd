/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries from namespaces in which nobody listens yet: the hooks have kept them (abi/dns.h) until
 * there is a listener.
 */
#include "dns.h"

#include <string.h>

#include "base/clock.h"
#include "members.h"

/* Looking for processes costs; a workload can make namespaces all the time. */
#define SERVE_NS (5 * PG_NSEC_PER_MSEC)

void pg_dns_note(struct pg_dns *dns, const struct pg_event *event)
{
	const struct pg_event_parked *parked = (const struct pg_event_parked *)event;
	struct sockaddr_storage address;
	struct pg_parked *kept;

	dns->unserved = true;
	if (event->kind != PG_EVENT_PARKED || dns->parked_count == PG_PARKED_MAX)
		return;
	kept = &dns->parked[dns->parked_count++];
	*kept = (struct pg_parked){.netns = event->netns, .size = parked->size};
	kept->peer.addr_size = pg_endpoint_to_sockaddr(&parked->local, &address);
	memcpy(&kept->peer.addr, &address, kept->peer.addr_size);
	memcpy(kept->data, parked->data, parked->size);
}

/* The site of the namespace with the cookie. Where the kernel tells no cookies (before 5.14) a
 * query can only be given to the one that has just been opened. */
static struct pg_site *site_of(const struct pg_dns *dns, uint64_t cookie, uint64_t since)
{
	struct pg_site *site, *fresh = NULL;

	LIST_FOREACH (site, &dns->sites, link) {
		if (!site->listener)
			continue;
		if (cookie && pg_listener_netns_cookie(site->listener) == cookie)
			return site;
		if (pg_listener_netns_cookie(site->listener) || site->opened < since)
			continue;
		if (fresh)
			return NULL;
		fresh = site;
	}
	return fresh;
}

/* Set anew at each event, the timer could be put off for ever, and with it all other tending. */
static void hurry(struct pg_dns *dns)
{
	struct pg_error err = {};

	if (dns->hurried)
		return;
	dns->hurried = true;
	/* The regular tending is a second away at most, and clients ask again. */
	if (pg_timer_set(dns->timer_fd, SERVE_NS, PG_NSEC_PER_SEC, &err))
		pg_sites_warn(dns, "listener_refused", &err);
}

void pg_dns_serve(struct pg_dns *dns)
{
	pg_automembers struct pg_members members = {};
	const uint64_t now = pg_monotonic_ns();
	uint64_t took;

	if (!dns->unserved)
		return;
	if (now < dns->serve_at) {
		hurry(dns);
		return;
	}
	dns->unserved = false;
	if (!pg_places_collect(dns->environment, 0, &members))
		pg_sites_open_missing(dns, &members);
	for (size_t i = 0; i < dns->parked_count; i++) {
		const struct pg_parked *parked = &dns->parked[i];
		const struct pg_site *site = site_of(dns, parked->netns, now);

		if (site)
			pg_dns_ask(dns, site, &parked->peer, false, parked->data, parked->size);
	}
	dns->parked_count = 0;
	/* Half of the time at most, however many processes there are. */
	took = pg_monotonic_ns() - now;
	dns->serve_at = now + took + (took > SERVE_NS ? took : SERVE_NS);
}
