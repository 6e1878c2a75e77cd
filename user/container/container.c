/* SPDX-License-Identifier: Apache-2.0 */
#include "container.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "containerd.h"
#include "http.h"
#include "inspect.h"

/* Docker's own limit is that of a hostname; ids have 64. */
#define NAME_MAX_OCTETS 255

static const char *const names[] = {
#define PG_X(symbol, name, path) [PG_RUNTIME_##symbol] = name,
	PG_RUNTIMES(PG_X)
#undef PG_X
};

const char *pg_runtime_name(enum pg_runtime runtime)
{
	return names[runtime];
}

int pg_runtime_parse(const char *name, enum pg_runtime *ret_runtime)
{
	for (size_t i = 0; i < PG_ARRAY_SIZE(names); i++) {
		if (strcmp(name, names[i]) == 0) {
			*ret_runtime = (enum pg_runtime)i;
			return 0;
		}
	}
	return -EINVAL;
}

const char *pg_network_owner(const char *network_mode)
{
	static const char prefix[] = "container:";

	if (!network_mode || strncmp(network_mode, prefix, strlen(prefix)) != 0)
		return NULL;
	return network_mode + strlen(prefix);
}

void pg_container_clear(struct pg_container *container)
{
	free(container->id);
	free(container->name);
	free(container->network_mode);
	free(container->executor);
	for (size_t i = 0; i < container->device_count; i++)
		free(container->devices[i]);
	for (size_t i = 0; i < container->mount_count; i++)
		free(container->mounts[i].source);
	free(container->resolv_conf);
	free(container->hosts);
	free(container->project);
	free(container->service);
	for (size_t i = 0; i < container->network_count; i++)
		free(container->networks[i].name);
	for (size_t i = 0; i < container->extra_host_count; i++)
		free(container->extra_hosts[i].name);
	free(container->extra_hosts);
	for (size_t i = 0; i < container->proxy_count; i++)
		free(container->proxies[i].value);
	*container = (struct pg_container){0};
}

void pg_neighbours_clear(struct pg_neighbours *neighbours)
{
	pg_json_free(neighbours->json);
	free(neighbours->items);
	*neighbours = (struct pg_neighbours){0};
}

/* What the runtimes accept; it goes into a path as it is. */
static bool is_name(const char *name)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789_.-";
	const size_t length = strlen(name);

	return length > 0 && length <= NAME_MAX_OCTETS && strspn(name, allowed) == length &&
	       *name != '.' && *name != '-';
}

static int get(const struct pg_runtimes *runtimes, enum pg_runtime runtime, const char *path,
	       size_t limit, struct pg_json **ret_json, struct pg_error *err)
{
	pg_autofree char *body = NULL;
	size_t size;
	int error = pg_http_get(runtimes->paths[runtime], path, limit, runtimes->deadline,
				runtimes->cancelled, &body, &size, err);

	if (error)
		return error;
	error = pg_container_parse(body, size, ret_json, err);
	return error ? pg_error_prefix(err, "%s", names[runtime]) : 0;
}

/* One that cannot be told is taken for one that leads out: it is only said of a container. */
static void read_internal(const struct pg_runtimes *runtimes, struct pg_container *container)
{
	for (size_t i = 0; i < container->network_count; i++) {
		struct pg_container_network *network = &container->networks[i];
		pg_autojson struct pg_json *json = NULL;
		struct pg_error unused = {};
		char path[NAME_MAX_OCTETS + sizeof("/networks/")];

		if (!is_name(network->name))
			continue;
		snprintf(path, sizeof(path), "/networks/%s", network->name);
		network->internal = get(runtimes, container->runtime, path, PG_CONTAINER_OCTETS,
					&json, &unused) == 0 &&
				    pg_container_network_is_internal(json);
	}
}

static int find_by_http(const struct pg_runtimes *runtimes, enum pg_runtime runtime,
			const char *name, struct pg_container *container, struct pg_error *err)
{
	pg_autojson struct pg_json *json = NULL;
	char path[NAME_MAX_OCTETS + sizeof("/containers//json")];
	int error;

	snprintf(path, sizeof(path), "/containers/%s/json", name);
	error = get(runtimes, runtime, path, PG_CONTAINER_OCTETS, &json, err);
	if (error == -ENOENT)
		return pg_fail(err, error, "%s has no container %s", names[runtime], name);
	if (!error)
		error = pg_container_read(json, container, err);
	if (!error)
		read_internal(runtimes, container);
	return error;
}

static int find(const struct pg_runtimes *runtimes, enum pg_runtime runtime, const char *name,
		struct pg_container *container, struct pg_error *err)
{
	switch (runtime) {
	case PG_RUNTIME_DOCKER:
	case PG_RUNTIME_PODMAN:
		return find_by_http(runtimes, runtime, name, container, err);
	case PG_RUNTIME_CONTAINERD:
		return pg_containerd_find(runtimes->paths[runtime], name, container, err);
	}
	return -EINVAL;
}

int pg_container_find(const struct pg_runtimes *runtimes, enum pg_runtime runtime, const char *name,
		      struct pg_container *ret_container, struct pg_error *err)
{
	pg_autocontainer struct pg_container container = {.runtime = runtime};
	int error;

	if (!is_name(name))
		return pg_fail(err, -EINVAL, "no container can have that name");
	error = find(runtimes, runtime, name, &container, err);
	if (error)
		return error;
	*ret_container = container;
	container = (struct pg_container){0};
	return 0;
}

/* Of several runtimes without the container the one to tell of: what is nearest to finding it. */
static unsigned int weight_of(int error)
{
	if (error == -ENOTCONN)
		return 1;
	return error == -ENOENT ? 2 : 3;
}

int pg_container_find_any(const struct pg_runtimes *runtimes, const char *name,
			  struct pg_container *ret_container, struct pg_error *err)
{
	pg_autocontainer struct pg_container found = {0};
	struct pg_error worst = {};

	for (size_t i = 0; i < PG_RUNTIME_COUNT; i++) {
		pg_autocontainer struct pg_container container = {0};
		struct pg_error one = {};
		int error = pg_container_find(runtimes, (enum pg_runtime)i, name, &container, &one);

		if (error && (!worst.number || weight_of(error) > weight_of(worst.number)))
			worst = one;
		/* Docker's containers are containerd's, too. */
		if (error || (found.id && strcmp(found.id, container.id) == 0))
			continue;
		if (found.id)
			return pg_fail(err, -ENOTUNIQ, "both %s and %s have a container %s",
				       names[found.runtime], names[i], name);
		found = container;
		container = (struct pg_container){0};
	}
	if (!found.id) {
		*err = worst;
		return worst.number;
	}
	*ret_container = found;
	found = (struct pg_container){0};
	return 0;
}

int pg_container_list(const struct pg_runtimes *runtimes, enum pg_runtime runtime,
		      struct pg_neighbours *ret_neighbours, struct pg_error *err)
{
	pg_autojson struct pg_json *json = NULL;
	int error;

	*ret_neighbours = (struct pg_neighbours){0};
	if (runtime == PG_RUNTIME_CONTAINERD)
		return 0;
	error = get(runtimes, runtime, "/containers/json", PG_CONTAINER_LIST_OCTETS, &json, err);
	return error ? error : pg_neighbours_read(&json, ret_neighbours, err);
}
