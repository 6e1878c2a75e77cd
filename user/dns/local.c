/* SPDX-License-Identifier: Apache-2.0 */
#include "local.h"

#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "record.h"

/* A power of two. */
#define BUCKETS 1024

struct host {
	LIST_ENTRY(host) entry;
	struct pg_addr *addrs;
	size_t count;
	char name[];
};

struct pg_local {
	struct pg_hash_key secret;
	LIST_HEAD(host_bucket, host) buckets[BUCKETS];
};

struct pg_local *pg_local_new(const struct pg_hash_key *secret)
{
	struct pg_local *local = calloc(1, sizeof(*local));

	if (local)
		local->secret = *secret;
	return local;
}

void pg_local_free(struct pg_local *local)
{
	struct host *host;

	if (!local)
		return;
	for (size_t i = 0; i < BUCKETS; i++) {
		while ((host = LIST_FIRST(&local->buckets[i]))) {
			LIST_REMOVE(host, entry);
			free(host->addrs);
			free(host);
		}
	}
	free(local);
}

static size_t bucket_of(const struct pg_local *local, const char *name)
{
	return pg_hash(&local->secret, name, strlen(name)) % BUCKETS;
}

static struct host *find(const struct pg_local *local, const char *name)
{
	struct host *host;

	LIST_FOREACH (host, &local->buckets[bucket_of(local, name)], entry) {
		if (strcmp(host->name, name) == 0)
			return host;
	}
	return NULL;
}

int pg_local_add(struct pg_local *local, const char *name, const struct pg_addr *addr)
{
	const size_t size = strlen(name) + 1;
	struct host *host = find(local, name);
	struct pg_dns_name wire;
	struct pg_addr *addrs;

	if (pg_dns_name_from_text(name, &wire) < 0)
		return -EINVAL;
	if (!host) {
		host = malloc(sizeof(*host) + size);
		if (!host)
			return -ENOMEM;
		host->addrs = NULL;
		host->count = 0;
		memcpy(host->name, name, size);
		LIST_INSERT_HEAD(&local->buckets[bucket_of(local, name)], host, entry);
	}
	for (size_t i = 0; i < host->count; i++) {
		if (pg_addr_compare(&host->addrs[i], addr) == 0)
			return 0;
	}
	addrs = reallocarray(host->addrs, host->count + 1, sizeof(*addrs));
	if (!addrs)
		return -ENOMEM;
	addrs[host->count++] = *addr;
	host->addrs = addrs;
	return 0;
}

bool pg_local_is_localhost(const char *text)
{
	static const char localhost[] = "localhost";
	const size_t size = strlen(text), tail = sizeof(localhost) - 1;

	if (size < tail || strcmp(text + size - tail, localhost) != 0)
		return false;
	return size == tail || text[size - tail - 1] == '.';
}

bool pg_local_is_loopback_reverse(const char *text)
{
	const struct pg_addr loopback6 = pg_addr_from_bytes(in6addr_loopback.s6_addr);
	const struct pg_addr loopback4 = pg_addr_from_v4(htonl(INADDR_LOOPBACK));
	struct pg_addr addr;

	return pg_dns_reverse_address(text, &addr) &&
	       (pg_addr_compare(&addr, &loopback4) == 0 || pg_addr_compare(&addr, &loopback6) == 0);
}

int pg_local_find(const struct pg_local *local, const char *text, const struct pg_dns_name *name,
		  uint16_t type, struct pg_answer **ret_answer)
{
	const struct host *host = find(local, text);

	*ret_answer = NULL;
	if (!host)
		return 0;
	*ret_answer = pg_answer_make(name, type, host->addrs, host->count, PG_LOCAL_TTL_S);
	return *ret_answer ? 0 : -ENOMEM;
}

static struct pg_answer *make_pointer(const struct pg_dns_name *name)
{
	static const uint8_t localhost[] = "\x09localhost";
	const size_t size = name->size + RRFIXEDSZ + sizeof(localhost);
	struct pg_answer *answer = pg_answer_new(name, ns_t_ptr, size);
	struct pg_dns_writer writer = {.size = 0};

	if (!answer)
		return NULL;
	writer.data = answer->records;
	pg_record_put_head(&writer, name, ns_t_ptr, PG_LOCAL_TTL_S, sizeof(localhost));
	pg_dns_put(&writer, localhost, sizeof(localhost));
	answer->ttl = PG_LOCAL_TTL_S;
	answer->count = 1;
	return answer;
}

int pg_local_find_localhost(const char *text, const struct pg_dns_name *name, uint16_t type,
			    struct pg_answer **ret_answer)
{
	const struct pg_addr loopback[] = {
		pg_addr_from_v4(htonl(INADDR_LOOPBACK)),
		pg_addr_from_bytes(in6addr_loopback.s6_addr),
	};

	*ret_answer = NULL;
	if (pg_local_is_localhost(text))
		*ret_answer = pg_answer_make(name, type, loopback, PG_ARRAY_SIZE(loopback),
					     PG_LOCAL_TTL_S);
	else if (type == ns_t_ptr && pg_local_is_loopback_reverse(text))
		*ret_answer = make_pointer(name);
	else
		return 0;
	return *ret_answer ? 0 : -ENOMEM;
}
