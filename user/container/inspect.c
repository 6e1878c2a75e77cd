/* SPDX-License-Identifier: Apache-2.0 */
#include "inspect.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/clock.h"

static const struct pg_json_limits limits = {.size = PG_CONTAINER_LIST_OCTETS,
					     .depth = 32,
					     .values = 1000000};

int pg_container_parse(const char *text, size_t size, struct pg_json **ret_json,
		       struct pg_error *err)
{
	struct pg_json_problem problem = {};
	int error = pg_json_parse(text, size, &limits, ret_json, &problem);

	if (error == -ENOMEM)
		return pg_fail(err, error, "no memory for the answer");
	return error ? pg_fail(err, -EPROTO, "the answer is no JSON: %s", problem.message) : 0;
}

int pg_container_copy(char **to, const char *from)
{
	char *copy = from ? strdup(from) : NULL;

	if (from && !copy)
		return -ENOMEM;
	free(*to);
	*to = copy;
	return 0;
}

static const struct pg_json_value *find(const struct pg_json_value *object, const char *first,
					const char *second)
{
	const struct pg_json_value *value = pg_json_member(object, first);

	return second ? pg_json_member(value, second) : value;
}

const char *pg_container_text(const struct pg_json_value *object, const char *first,
			      const char *second)
{
	const struct pg_json_value *value = find(object, first, second);
	const char *text = value ? pg_json_string_of(value) : NULL;

	return text && *text ? text : NULL;
}

/* RFC 3339, with a fraction of any length; 0 if it is none. */
static uint64_t parse_time(const char *text)
{
	struct tm tm = {0};
	int used = 0, hours, minutes;
	uint64_t ns = 0, unit = PG_NSEC_PER_SEC / 10;
	int64_t seconds;
	char sign;

	if (!text || sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
			    &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &used) != 6)
		return 0;
	tm.tm_year -= 1900;
	tm.tm_mon--;
	text += used;
	if (*text == '.')
		for (text++; *text >= '0' && *text <= '9'; text++, unit /= 10)
			ns += (uint64_t)(*text - '0') * unit;
	seconds = timegm(&tm);
	if (sscanf(text, "%c%2d:%2d", &sign, &hours, &minutes) == 3)
		seconds -= (sign == '-' ? -60 : 60) * (hours * 60 + minutes);
	else if (*text != 'Z')
		return 0;
	/* The zero time of Go is that of something that has not happened. */
	return seconds > 0 ? (uint64_t)seconds * PG_NSEC_PER_SEC + ns : 0;
}

/* Variables that curl, Go, Python, Node and others look at. */
static const char *const proxy_variables[] = {"HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY",
					      "ALL_PROXY"};

static int add_proxy(struct pg_container *container, const char *variable, const char *value)
{
	struct pg_container_proxy *proxy = &container->proxies[container->proxy_count];
	const char *scheme = strstr(value, "://"), *host = scheme ? scheme + 3 : value;
	const size_t length = strcspn(host, "/?#");
	const char *at = memrchr(host, '@', length);

	/* User and password are nobody's business. */
	if (asprintf(&proxy->value, "%.*s%s", (int)(at ? host - value : 0), value,
		     at ? at + 1 : value) < 0) {
		proxy->value = NULL;
		return -ENOMEM;
	}
	proxy->variable = variable;
	container->proxy_count++;
	return 0;
}

static bool has_proxy(const struct pg_container *container, const char *variable)
{
	for (size_t i = 0; i < container->proxy_count; i++)
		if (container->proxies[i].variable == variable)
			return true;
	return false;
}

int pg_container_read_proxies(struct pg_container *container, const struct pg_json_value *array)
{
	int error = 0;

	if (!array || !pg_json_is_array(array))
		return 0;
	for (const struct pg_json_value *e = pg_json_first(array); e && !error;
	     e = pg_json_next(e)) {
		const char *text = pg_json_string_of(e);
		const char *equals = text ? strchr(text, '=') : NULL;

		for (size_t i = 0; equals && equals[1] && i < PG_ARRAY_SIZE(proxy_variables); i++) {
			const size_t length = strlen(proxy_variables[i]);

			if ((size_t)(equals - text) == length &&
			    strncasecmp(text, proxy_variables[i], length) == 0 &&
			    !has_proxy(container, proxy_variables[i]))
				error = add_proxy(container, proxy_variables[i], equals + 1);
		}
	}
	return error;
}

static void add_address(struct pg_container_network *network, const char *text)
{
	if (text && pg_addr_parse(text, &network->addrs[network->addr_count]) == 0)
		network->addr_count++;
}

static void add_gateway(struct pg_container_network *network, const char *text)
{
	if (text && pg_addr_parse(text, &network->gateways[network->gateway_count]) == 0)
		network->gateway_count++;
}

static int read_networks(struct pg_container *container, const struct pg_json_value *networks)
{
	const char *mode = container->network_mode;

	/* Docker lists these modes as networks without addresses. */
	if (!networks || !pg_json_is_object(networks) ||
	    (mode && (strcmp(mode, "host") == 0 || strcmp(mode, "none") == 0)))
		return 0;
	for (const struct pg_json_value *n = pg_json_first(networks);
	     n && container->network_count < PG_CONTAINER_NETWORKS_MAX; n = pg_json_next(n)) {
		struct pg_container_network *network =
			&container->networks[container->network_count];

		if (pg_container_copy(&network->name, pg_json_name_of(n)) < 0)
			return -ENOMEM;
		container->network_count++;
		network->ip4 = pg_container_text(n, "IPAddress", NULL);
		network->ip6 = pg_container_text(n, "GlobalIPv6Address", NULL);
		add_address(network, pg_container_text(n, "IPAddress", NULL));
		add_address(network, pg_container_text(n, "GlobalIPv6Address", NULL));
		add_gateway(network, pg_container_text(n, "Gateway", NULL));
		add_gateway(network, pg_container_text(n, "IPv6Gateway", NULL));
	}
	return 0;
}

/* "NAME:ADDRESS" or "NAME=ADDRESS"; false: it is neither. */
static bool parse_host(char *text, struct pg_container_host *ret_host)
{
	char *end = text + strcspn(text, ":=");

	if (end == text || !*end || text[strcspn(text, " \t\r\n#")])
		return false;
	*end++ = '\0';
	*ret_host = (struct pg_container_host){.name = text,
					       .gateway = strcmp(end, "host-gateway") == 0};
	return ret_host->gateway || pg_addr_parse(end, &ret_host->addr) == 0;
}

static int read_extra_hosts(struct pg_container *container, const struct pg_json_value *array)
{
	if (!array || !pg_json_is_array(array))
		return 0;
	container->extra_hosts = calloc(PG_CONTAINER_HOSTS_MAX, sizeof(*container->extra_hosts));
	if (!container->extra_hosts)
		return -ENOMEM;
	for (const struct pg_json_value *e = pg_json_first(array);
	     e && container->extra_host_count < PG_CONTAINER_HOSTS_MAX; e = pg_json_next(e)) {
		const char *text = pg_json_string_of(e);
		pg_autofree char *copy = strdup(text ? text : "");

		if (!copy)
			return -ENOMEM;
		if (parse_host(copy, &container->extra_hosts[container->extra_host_count])) {
			container->extra_host_count++;
			copy = NULL;
		}
	}
	return 0;
}

static void read_dns(struct pg_container *container, const struct pg_json_value *array)
{
	if (!array || !pg_json_is_array(array))
		return;
	for (const struct pg_json_value *e = pg_json_first(array);
	     e && container->dns_count < PG_CONTAINER_DNS_MAX; e = pg_json_next(e)) {
		const char *text = pg_json_string_of(e);

		if (text && pg_addr_parse(text, &container->dns[container->dns_count]) == 0)
			container->dns_count++;
	}
}

int pg_container_read_devices(struct pg_container *container, const struct pg_json_value *array,
			      const char *member)
{
	if (!array || !pg_json_is_array(array))
		return 0;
	for (const struct pg_json_value *e = pg_json_first(array);
	     e && container->device_count < PG_CONTAINER_DEVICES_MAX; e = pg_json_next(e)) {
		const char *path = pg_container_text(e, member, NULL);

		if (!path)
			continue;
		if (pg_container_copy(&container->devices[container->device_count], path) < 0)
			return -ENOMEM;
		container->device_count++;
	}
	return 0;
}

/* Docker's and Podman's; what is of a volume has a source of the runtime's own. */
static int read_mounts(struct pg_container *container, const struct pg_json_value *array)
{
	if (!array || !pg_json_is_array(array))
		return 0;
	for (const struct pg_json_value *e = pg_json_first(array);
	     e && container->mount_count < PG_CONTAINER_MOUNTS_MAX; e = pg_json_next(e)) {
		struct pg_container_mount *mount = &container->mounts[container->mount_count];
		const char *source = pg_container_text(e, "Source", NULL);

		if (!source || *source != '/')
			continue;
		if (pg_container_copy(&mount->source, source) < 0)
			return -ENOMEM;
		mount->read_only = !pg_json_is_true(pg_json_member(e, "RW"));
		container->mount_count++;
	}
	return 0;
}

static const char *label_of(const struct pg_json_value *labels, const char *name)
{
	static const char *const prefixes[] = {"com.docker.compose.", "io.podman.compose."};
	const char *value = NULL;
	char key[64];

	for (size_t i = 0; !value && i < PG_ARRAY_SIZE(prefixes); i++) {
		snprintf(key, sizeof(key), "%s%s", prefixes[i], name);
		value = pg_container_text(labels, key, NULL);
	}
	return value;
}

/* Docker's names begin with a slash. */
static const char *plain_name(const char *name)
{
	return name && *name == '/' ? name + 1 : name;
}

static const char *mode_of(const struct pg_json_value *object)
{
	const char *mode = pg_container_text(object, "HostConfig", "NetworkMode");

	return mode && strcmp(mode, "default") == 0 ? "bridge" : mode;
}

/* Podman says "oci" where Docker names it. */
static const char *executor_of(const struct pg_json_value *root)
{
	const char *podman = pg_container_text(root, "OCIRuntime", NULL);

	return podman ? podman : pg_container_text(root, "HostConfig", "Runtime");
}

static int read_texts(const struct pg_json_value *root, struct pg_container *container)
{
	const struct pg_json_value *labels = find(root, "Config", "Labels");
	const char *name = plain_name(pg_container_text(root, "Name", NULL));
	int error = pg_container_copy(&container->id, pg_container_text(root, "Id", NULL));

	if (!error)
		error = pg_container_copy(&container->name, name ? name : container->id);
	if (!error)
		error = pg_container_copy(&container->network_mode, mode_of(root));
	if (!error)
		error = pg_container_copy(&container->executor, executor_of(root));
	if (!error)
		error = pg_container_copy(&container->resolv_conf,
					  pg_container_text(root, "ResolvConfPath", NULL));
	if (!error)
		error = pg_container_copy(&container->hosts,
					  pg_container_text(root, "HostsPath", NULL));
	if (!error)
		error = pg_container_copy(&container->project, label_of(labels, "project"));
	if (!error)
		error = pg_container_copy(&container->service, label_of(labels, "service"));
	return error;
}

int pg_container_read(const struct pg_json *json, struct pg_container *container,
		      struct pg_error *err)
{
	const struct pg_json_value *root = pg_json_root(json);
	const struct pg_json_value *pid = find(root, "State", "Pid");
	uint64_t number = 0;
	int error = read_texts(root, container);

	if (!error)
		error = read_networks(container, find(root, "NetworkSettings", "Networks"));
	if (!error)
		error = pg_container_read_proxies(container, find(root, "Config", "Env"));
	if (!error)
		error = read_extra_hosts(container, find(root, "HostConfig", "ExtraHosts"));
	if (!error)
		error = read_mounts(container, pg_json_member(root, "Mounts"));
	if (!error)
		error = pg_container_read_devices(container, find(root, "HostConfig", "Devices"),
						  "PathOnHost");
	if (error)
		return pg_fail(err, error, "no memory for a container");
	if (!container->id || !pid || !pg_json_number_of(pid, INT_MAX, &number))
		return pg_fail(err, -EPROTO, "the answer does not say a container's id and pid");
	if (number == 0 || !pg_json_is_true(find(root, "State", "Running")))
		return pg_fail(err, -ESRCH, "the container %s does not run", container->name);
	container->pid = (pid_t)number;
	container->privileged = pg_json_is_true(find(root, "HostConfig", "Privileged"));
	container->started = parse_time(pg_container_text(root, "State", "StartedAt"));
	read_dns(container, find(root, "HostConfig", "Dns"));
	return 0;
}

bool pg_container_network_is_internal(const struct pg_json *json)
{
	const struct pg_json_value *root = pg_json_root(json);

	return pg_json_is_true(pg_json_member(root, "Internal")) ||
	       pg_json_is_true(pg_json_member(root, "internal"));
}

static void read_neighbour(const struct pg_json_value *element, struct pg_neighbour *neighbour)
{
	const struct pg_json_value *labels = pg_json_member(element, "Labels");
	const struct pg_json_value *names = pg_json_member(element, "Names"), *name = NULL;

	if (names && pg_json_is_array(names))
		name = pg_json_first(names);
	*neighbour = (struct pg_neighbour){
		.id = pg_container_text(element, "Id", NULL),
		.name = plain_name(name ? pg_json_string_of(name) : NULL),
		.project = label_of(labels, "project"),
		.service = label_of(labels, "service"),
		.network_mode = mode_of(element),
	};
	if (!neighbour->name)
		neighbour->name = neighbour->id;
}

int pg_neighbours_read(struct pg_json **json, struct pg_neighbours *ret_neighbours,
		       struct pg_error *err)
{
	const struct pg_json_value *root = pg_json_root(*json);
	struct pg_neighbour *items;
	size_t count = 0;

	if (!pg_json_is_array(root))
		return pg_fail(err, -EPROTO, "the answer is no list of containers");
	items = calloc(pg_json_count(root) + 1, sizeof(*items));
	if (!items)
		return pg_fail(err, -ENOMEM, "no memory for the list of containers");
	for (const struct pg_json_value *e = pg_json_first(root); e; e = pg_json_next(e)) {
		read_neighbour(e, &items[count]);
		if (items[count].id)
			count++;
	}
	*ret_neighbours =
		(struct pg_neighbours){.json = PG_TAKE_PTR(*json), .items = items, .count = count};
	return 0;
}
