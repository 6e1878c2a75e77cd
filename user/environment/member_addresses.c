/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses that a runtime has given to members in network namespaces of their own: what members
 * send to them stays within the Environment. A member has its addresses until its last process has
 * gone; then the runtime may give them to somebody else. If the member is confined again, it gets
 * back those of them that its namespace has. They stand in the record of a kept
 * Environment, a line each: the member's number, a space, the address. It is written before the
 * kernel hears of a new one, and after one is gone there.
 */
#include "host_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/file.h"

#define ADDRESSES_FILE	   "addresses"
#define ADDRESSES_FILE_MAX (PG_MEMBER_ADDRESSES_MAX * (PG_ADDR_TEXT + 16UL))

struct watch {
	struct pg_environment *environment;
	size_t member;
	int fd;	      /* of cgroup.events; -1: not watched */
	bool is_back; /* confined again since its last process has gone */
	struct pg_source source;
};

struct pg_member_addresses {
	struct pg_member_address_of *items;
	size_t count;
	/* What members had whose last process has gone. Not recorded: the next owner has none. */
	struct pg_member_address_of *lost;
	size_t lost_count;
	struct watch watches[PG_MEMBERS_MAX];
};

static struct pg_member_addresses *new_addresses(void)
{
	struct pg_member_addresses *addresses = calloc(1, sizeof(*addresses));

	if (!addresses)
		return NULL;
	addresses->items = calloc(PG_MEMBER_ADDRESSES_MAX, sizeof(*addresses->items));
	addresses->lost = calloc(PG_MEMBER_ADDRESSES_MAX, sizeof(*addresses->lost));
	if (!addresses->items || !addresses->lost) {
		free(addresses->items);
		free(addresses->lost);
		free(addresses);
		return NULL;
	}
	for (size_t i = 0; i < PG_MEMBERS_MAX; i++)
		addresses->watches[i].fd = -1;
	return addresses;
}

int pg_member_addresses_choose(struct pg_environment *environment,
			       const struct pg_environment_options *options, struct pg_error *err)
{
	struct pg_member_addresses *addresses;

	if (!options->address_count || options->apart)
		return 0;
	if (options->address_count > PG_MEMBER_ADDRESSES_MAX)
		return pg_fail(err, -E2BIG, "members can have %d addresses, these are %zu",
			       PG_MEMBER_ADDRESSES_MAX, options->address_count);
	for (size_t i = 0; i < options->address_count; i++)
		if (options->addresses[i].member >= options->member_count)
			return pg_fail(err, -EINVAL, "there is no member %zu to have an address",
				       options->addresses[i].member);
	addresses = environment->member_addresses = new_addresses();
	if (!addresses)
		return pg_fail(err, -ENOMEM, "not enough memory for addresses of members");
	memcpy(addresses->items, options->addresses,
	       options->address_count * sizeof(*addresses->items));
	addresses->count = options->address_count;
	return 0;
}

static int save(const struct pg_environment *environment, struct pg_error *err)
{
	const struct pg_member_addresses *addresses = environment->member_addresses;
	char address[PG_ADDR_TEXT];
	pg_autofree char *text = NULL;
	size_t size = 0;
	FILE *out;

	if (!environment->record.kept)
		return 0;
	out = open_memstream(&text, &size);
	if (!out)
		return pg_fail(err, -ENOMEM, "not enough memory for addresses of members");
	for (size_t i = 0; i < addresses->count; i++)
		fprintf(out, "%zu %s\n", addresses->items[i].member,
			pg_addr_format(&addresses->items[i].addr, address));
	if (fclose(out))
		return pg_fail(err, -ENOMEM, "not enough memory for addresses of members");
	return pg_record_put(environment->record_fd, ADDRESSES_FILE, text, size, err);
}

static int parse_line(char *line, struct pg_member_address_of *ret_item)
{
	char *address;
	const unsigned long member = strtoul(line, &address, 10);

	if (address == line || *address != ' ' || member >= PG_MEMBERS_MAX)
		return -EPROTO;
	ret_item->member = member;
	return pg_addr_parse(address + 1, &ret_item->addr) ? -EPROTO : 0;
}

int pg_member_addresses_recall(struct pg_environment *environment, struct pg_error *err)
{
	struct pg_member_addresses *addresses;
	pg_autofree char *text = NULL;
	char *save_ptr = NULL;
	size_t size;
	int error = pg_file_read_at(environment->record_fd, ADDRESSES_FILE, ADDRESSES_FILE_MAX,
				    &text, &size, err);

	if (error)
		return error == -ENOENT ? 0 : error;
	addresses = environment->member_addresses = new_addresses();
	if (!addresses)
		return pg_fail(err, -ENOMEM, "not enough memory for addresses of members");
	for (char *line = strtok_r(text, "\n", &save_ptr); line && !error;
	     line = strtok_r(NULL, "\n", &save_ptr)) {
		if (addresses->count == PG_MEMBER_ADDRESSES_MAX)
			error = -E2BIG;
		else
			error = parse_line(line, &addresses->items[addresses->count++]);
	}
	return error ? pg_fail_errno(err, error, "reading the addresses of members") : 0;
}

bool pg_member_addresses_have(const struct pg_environment *environment, const struct pg_addr *addr)
{
	const struct pg_member_addresses *addresses = environment->member_addresses;

	for (size_t i = 0; addresses && i < addresses->count; i++)
		if (!pg_addr_compare(&addresses->items[i].addr, addr))
			return true;
	return false;
}

/* Those of the member go, unless another has them too: it shares the namespace. */
static void forget(struct pg_environment *environment, size_t member)
{
	struct pg_member_addresses *addresses = environment->member_addresses;
	struct pg_error err = {};
	size_t kept = 0;

	for (size_t i = 0; i < addresses->count; i++)
		if (addresses->items[i].member == member)
			pg_member_address_remove(environment->host->kernel,
						 environment->header.env_id,
						 &addresses->items[i].addr);
	for (size_t i = 0; i < addresses->count; i++)
		if (addresses->items[i].member != member)
			addresses->items[kept++] = addresses->items[i];
		else if (addresses->lost_count < PG_MEMBER_ADDRESSES_MAX)
			addresses->lost[addresses->lost_count++] = addresses->items[i];
	addresses->count = kept;
	for (size_t i = 0; i < kept; i++)
		if (pg_member_address_add(environment->host->kernel, environment->header.env_id,
					  &addresses->items[i].addr, &err))
			pg_host_warn(environment->host, "member_address", err.text);
	if (save(environment, &err))
		pg_host_warn(environment->host, "member_address", err.text);
}

/* Of the cgroup that is watched: the member may have another one by now. Reading is what makes it
 * wait for the next change. */
static bool is_populated(int events_fd)
{
	char text[256];
	const ssize_t got = pread(events_fd, text, sizeof(text) - 1, 0);

	if (got < 0)
		return false;
	text[got] = '\0';
	return strstr(text, "populated 1");
}

static void end_watch(struct watch *watch)
{
	if (watch->fd >= 0)
		pg_host_remove_source(watch->environment->host, watch->fd, &watch->source);
	pg_close_fd(&watch->fd);
}

static int process(void *userdata, struct pg_error *err)
{
	struct watch *watch = userdata;

	if (is_populated(watch->fd))
		return 0;
	end_watch(watch);
	watch->is_back = false;
	forget(watch->environment, watch->member);
	return 0;
}

static bool has_any(const struct pg_member_addresses *addresses, size_t member)
{
	for (size_t i = 0; i < addresses->count; i++)
		if (addresses->items[i].member == member)
			return true;
	return false;
}

static int start_watch(struct pg_environment *environment, size_t member, struct pg_error *err)
{
	struct watch *watch = &environment->member_addresses->watches[member];
	const struct pg_place *place = &environment->places[member];

	*watch = (struct watch){.environment = environment,
				.member = member,
				.fd = -1,
				.is_back = watch->is_back};
	watch->source = (struct pg_source){process, watch};
	if (place->fd >= 0)
		watch->fd = openat(place->fd, "cgroup.events", O_RDONLY | O_CLOEXEC);
	if (watch->fd < 0 || !is_populated(watch->fd)) {
		pg_close_fd(&watch->fd);
		forget(environment, member);
		return 0;
	}
	return pg_host_add_source(environment->host, watch->fd, EPOLLPRI, &watch->source, err);
}

int pg_member_addresses_start(struct pg_environment *environment, struct pg_error *err)
{
	struct pg_member_addresses *addresses = environment->member_addresses;
	int error;

	if (!addresses)
		return 0;
	error = save(environment, err);
	for (size_t i = 0; i < addresses->count && !error; i++)
		error = pg_member_address_add(environment->host->kernel, environment->header.env_id,
					      &addresses->items[i].addr, err);
	for (size_t i = 0; i < pg_place_count(environment) && !error; i++)
		if (has_any(addresses, i))
			error = start_watch(environment, i, err);
	return error;
}

/* Whether the runtime has given it to the member's namespace: what the workload could add there is
 * not among the addresses of a home. */
static bool is_given_again(const struct pg_environment *environment,
			   const struct pg_member_address_of *item)
{
	const struct pg_home *home;

	if (!environment->member_addresses->watches[item->member].is_back)
		return false;
	LIST_FOREACH (home, &environment->homes, link)
		if (!home->is_host && home->members & 1ULL << item->member &&
		    pg_home_has(home, &item->addr))
			return true;
	return false;
}

static int give_back(struct pg_environment *environment, size_t first, struct pg_error *err)
{
	struct pg_member_addresses *addresses = environment->member_addresses;
	int error = save(environment, err);

	/* One that is gone by now loses them again. */
	for (size_t i = 0; i < pg_place_count(environment) && !error; i++)
		if (addresses->watches[i].is_back && addresses->watches[i].fd < 0 &&
		    has_any(addresses, i))
			error = start_watch(environment, i, err);
	for (size_t i = first; i < addresses->count && !error; i++)
		error = pg_member_address_add(environment->host->kernel, environment->header.env_id,
					      &addresses->items[i].addr, err);
	return error;
}

void pg_environment_find_addresses(struct pg_environment *environment)
{
	struct pg_member_addresses *addresses = environment->member_addresses;
	const size_t first = addresses ? addresses->count : 0;
	struct pg_error err = {};
	size_t kept = 0;

	if (!addresses)
		return;
	for (size_t i = 0; i < addresses->lost_count; i++)
		if (addresses->count < PG_MEMBER_ADDRESSES_MAX &&
		    is_given_again(environment, &addresses->lost[i]))
			addresses->items[addresses->count++] = addresses->lost[i];
		else
			addresses->lost[kept++] = addresses->lost[i];
	addresses->lost_count = kept;
	if (addresses->count != first && give_back(environment, first, &err))
		pg_host_warn(environment->host, "member_address", err.text);
}

void pg_member_addresses_renew(struct pg_environment *environment, size_t member)
{
	struct pg_member_addresses *addresses = environment->member_addresses;
	struct watch *watch;

	if (!addresses)
		return;
	/* That the last process of the cgroup before has gone may not have been heard of yet. */
	watch = &addresses->watches[member];
	if (watch->fd >= 0) {
		end_watch(watch);
		forget(environment, member);
	}
	watch->is_back = true;
}

void pg_member_addresses_free(struct pg_environment *environment)
{
	struct pg_member_addresses *addresses = environment->member_addresses;

	if (!addresses)
		return;
	for (size_t i = 0; i < PG_MEMBERS_MAX; i++)
		end_watch(&addresses->watches[i]);
	free(addresses->items);
	free(addresses->lost);
	free(addresses);
	environment->member_addresses = NULL;
}
