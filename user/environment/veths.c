/* SPDX-License-Identifier: Apache-2.0 */
#include "links.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include <libmnl/libmnl.h>

#include "base/vector.h"
#include "homes.h"

static struct pg_veth_list *bucket_of(struct pg_link_watch *watch, unsigned int ifindex)
{
	return &watch->veths[ifindex % PG_VETH_BUCKETS];
}

struct pg_veth *pg_veth_find(struct pg_link_watch *watch, unsigned int ifindex)
{
	struct pg_veth *veth;

	LIST_FOREACH (veth, bucket_of(watch, ifindex), link)
		if (veth->ifindex == ifindex)
			return veth;
	return NULL;
}

struct pg_veth *pg_veth_touched(struct pg_link_watch *watch)
{
	struct pg_veth *veth;

	PG_VETH_FOREACH (watch, i, veth)
		if (veth->touched)
			return veth;
	return NULL;
}

void pg_veth_set_station(struct pg_veth *veth, pg_station *station, uint64_t value)
{
	veth->unwritten |= *station != value;
	*station = value;
}

static void drop(struct pg_link_watch *watch, struct pg_veth *veth)
{
	LIST_REMOVE(veth, link);
	pg_homes_forget_end(watch->host, veth->ifindex);
	if (veth->owner)
		pg_veth_lost(watch, veth);
	free(veth);
}

static void take(struct pg_link_watch *watch, const struct pg_device *device)
{
	struct pg_veth *veth = pg_veth_find(watch, device->ifindex);

	if (!veth) {
		veth = calloc(1, sizeof(*veth));
		/* It is seen with the next list. */
		if (!veth)
			return;
		veth->ifindex = device->ifindex;
		veth->nsid = PG_NSID_NONE;
		LIST_INSERT_HEAD(bucket_of(watch, device->ifindex), veth, link);
	}
	if (veth->master != device->master)
		pg_veth_set_station(veth, &veth->stations.bridge, 0);
	pg_veth_set_station(veth, &veth->stations.host, device->station);
	veth->touched |= veth->unwritten || !veth->peer || veth->peer != device->peer ||
			 veth->nsid != device->peer_nsid || veth->master != device->master;
	veth->peer = device->peer;
	veth->nsid = device->peer_nsid;
	veth->master = device->master;
	veth->list = watch->list;
	snprintf(veth->name, sizeof(veth->name), "%s", device->name);
	/* Before whatever else is to be done: the next thing that happens may be that it is used.
	 */
	if (!veth->owner)
		pg_veth_hold(watch, veth);
}

/* One that moves away says so, but not its other end, which now leads elsewhere. */
static void note_left(struct pg_link_watch *watch, const struct pg_device *device)
{
	if (device->moved_nsid == PG_NSID_NONE || device->peer_nsid != PG_NSID_NONE ||
	    pg_vector_grow(&watch->left, watch->left_count, &watch->left_room,
			   sizeof(*watch->left)))
		return;
	watch->left[watch->left_count++] = device->peer;
}

/* What others are ports of. */
static void note_bridge(struct pg_link_watch *watch, const struct pg_device *device)
{
	struct pg_veth *veth;

	PG_VETH_FOREACH (watch, i, veth) {
		if (veth->master != device->ifindex)
			continue;
		pg_veth_set_station(veth, &veth->stations.bridge, device->station);
		veth->touched |= veth->unwritten;
	}
}

static void visit(void *userdata, const struct pg_device *device)
{
	struct pg_link_watch *watch = userdata;
	struct pg_veth *veth;

	if (!device->deleted)
		note_bridge(watch, device);
	if (!pg_device_is(device, "veth"))
		return;
	if (!device->deleted) {
		take(watch, device);
		return;
	}
	veth = pg_veth_find(watch, device->ifindex);
	if (veth)
		drop(watch, veth);
	note_left(watch, device);
}

static void drop_unlisted(struct pg_link_watch *watch)
{
	for (size_t i = 0; i < PG_VETH_BUCKETS; i++) {
		struct pg_veth *veth, *next;

		for (veth = LIST_FIRST(&watch->veths[i]); veth; veth = next) {
			next = LIST_NEXT(veth, link);
			if (veth->list != watch->list)
				drop(watch, veth);
		}
	}
}

static int read_list(struct pg_link_watch *watch, struct pg_error *err)
{
	enum pg_devices_read how = PG_DEVICES_AGAIN;
	int error = 0;

	for (int i = 0; i < PG_DEVICES_TRIES && !error && how == PG_DEVICES_AGAIN; i++) {
		watch->list++;
		error = pg_devices_ask_veths(watch->events, err);
		if (!error)
			error = pg_devices_read(watch->events, visit, watch, &how, err);
	}
	/* Then it is asked for with whatever happens next. */
	watch->incomplete = !error && how == PG_DEVICES_AGAIN;
	if (!error && how == PG_DEVICES_ENDED)
		drop_unlisted(watch);
	return error;
}

int pg_veths_read(struct pg_link_watch *watch, struct pg_error *err)
{
	enum pg_devices_read how;
	int error = pg_devices_read(watch->events, visit, watch, &how, err);

	if (!error && (how == PG_DEVICES_AGAIN || watch->incomplete))
		error = read_list(watch, err);
	while (!error && watch->left_count) {
		error = pg_devices_ask_one(watch->events, watch->left[--watch->left_count], err);
		if (!error)
			error = pg_devices_read(watch->events, visit, watch, &how, err);
		if (!error && how == PG_DEVICES_AGAIN)
			error = read_list(watch, err);
	}
	return error;
}

int pg_veths_read_one(struct pg_link_watch *watch, unsigned int ifindex, struct pg_error *err)
{
	int error = pg_devices_ask_one(watch->events, ifindex, err);

	return error ? error : pg_veths_read(watch, err);
}

int pg_veths_open(struct pg_link_watch *watch, struct pg_error *err)
{
	int error = pg_devices_open(true, &watch->events, err);

	if (!error)
		error = pg_devices_open(false, &watch->query, err);
	return error ? error : read_list(watch, err);
}

void pg_veths_close(struct pg_link_watch *watch)
{
	for (size_t i = 0; i < PG_VETH_BUCKETS; i++) {
		struct pg_veth *veth;

		while ((veth = LIST_FIRST(&watch->veths[i]))) {
			LIST_REMOVE(veth, link);
			free(veth);
		}
	}
	if (watch->events)
		mnl_socket_close(watch->events);
	if (watch->query)
		mnl_socket_close(watch->query);
	free(watch->left);
	free(watch->processes);
}
