/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <errno.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "environment/host.h"
#include "json/json.h"

/* A file that people write: thousands of ranges fit, a mistaken path to a disk image does not. */
#define FILE_MAX (1024UL * 1024)

static const struct pg_json_limits limits = {.size = FILE_MAX,
					     .depth = 2,
					     .values = PG_NEVER_ALLOW_MAX + PG_HOST_PORTS_MAX + 64};

/* The file as it is written. */
struct settings {
	const char *socket, *pins, *cgroup_parent, *group, *log_level;
	const char *docker_socket, *podman_socket, *containerd_state;
	const struct pg_json_value *never_allow, *host_ports, *resolvers, *exposures;
	uint64_t clients_per_user, environments_per_user, members_per_user, entries_per_user;
};

static const struct pg_json_field fields[] = {
	PG_JSON_FIELD(struct settings, socket, PG_JSON_STRING, .max = 107),
	PG_JSON_FIELD(struct settings, pins, PG_JSON_STRING, .max = 1024),
	PG_JSON_FIELD(struct settings, cgroup_parent, PG_JSON_STRING, .max = PG_NAME_MAX),
	PG_JSON_FIELD(struct settings, group, PG_JSON_STRING, .max = 64),
	PG_JSON_FIELD(struct settings, log_level, PG_JSON_STRING, .max = 16),
	PG_JSON_FIELD(struct settings, docker_socket, PG_JSON_STRING, .max = 107),
	PG_JSON_FIELD(struct settings, podman_socket, PG_JSON_STRING, .max = 107),
	PG_JSON_FIELD(struct settings, containerd_state, PG_JSON_STRING, .max = 1024),
	PG_JSON_FIELD(struct settings, never_allow, PG_JSON_ARRAY, .max = PG_NEVER_ALLOW_MAX),
	PG_JSON_FIELD(struct settings, host_ports, PG_JSON_ARRAY, .max = PG_HOST_PORTS_MAX),
	PG_JSON_FIELD(struct settings, resolvers, PG_JSON_ARRAY, .max = PG_NAMESERVERS_MAX),
	PG_JSON_FIELD(struct settings, exposures, PG_JSON_OBJECT),
	PG_JSON_FIELD(struct settings, clients_per_user, PG_JSON_NUMBER, .max = PG_CLIENTS_MAX),
	PG_JSON_FIELD(struct settings, environments_per_user, PG_JSON_NUMBER,
		      .max = PG_ENVIRONMENTS_MAX),
	PG_JSON_FIELD(struct settings, members_per_user, PG_JSON_NUMBER,
		      .max = PG_ENVIRONMENTS_MAX * PG_MEMBERS_MAX),
	PG_JSON_FIELD(struct settings, entries_per_user, PG_JSON_NUMBER,
		      .max = PG_ENTRIES_USER_MAX),
};

static const char *const runtimes[] = {
#define PG_X(symbol, name, path) [PG_RUNTIME_##symbol] = path,
	PG_RUNTIMES(PG_X)
#undef PG_X
};

int pg_config_init(struct pg_config *config, struct pg_error *err)
{
	bool complete = true;

	*config = (struct pg_config){.log_level = PG_LOG_INFO,
				     .clients_per_user = PG_CLIENTS_USER,
				     .environments_per_user = PG_ENVIRONMENTS_USER,
				     .members_per_user = PG_MEMBERS_USER,
				     .entries_per_user = PG_ENTRIES_USER};
	for (size_t i = 0; i < PG_EXPOSURE_COUNT; i++)
		config->exposures[i] = pg_exposure_default((enum pg_exposure_id)i);
	config->socket = strdup(PG_AGENT_SOCKET);
	config->pins = strdup(PG_PINS_DEFAULT);
	config->parent = strdup(PG_CGROUP_PARENT_DEFAULT);
	for (size_t i = 0; i < PG_RUNTIME_COUNT; i++) {
		config->runtimes[i] = strdup(runtimes[i]);
		complete = complete && config->runtimes[i];
	}
	if (!complete || !config->socket || !config->pins || !config->parent) {
		pg_config_clear(config);
		return pg_fail(err, -ENOMEM, "no memory for the settings");
	}
	return 0;
}

void pg_config_clear(struct pg_config *config)
{
	free(config->socket);
	free(config->pins);
	free(config->parent);
	for (size_t i = 0; i < PG_RUNTIME_COUNT; i++)
		free(config->runtimes[i]);
	free(config->never_allow);
	free(config->host_ports);
	*config = (struct pg_config){0};
}

static int replace(char **text, const char *by)
{
	char *copy;

	if (!by)
		return 0;
	copy = strdup(by);
	if (!copy)
		return -ENOMEM;
	free(*text);
	*text = copy;
	return 0;
}

static int read_path(char **path, const char *by, const char *pointer,
		     struct pg_json_problem *problem)
{
	if (by && *by != '/')
		return pg_json_fail(problem, pointer, NULL, "an absolute path is needed");
	return replace(path, by);
}

static int read_parent(struct pg_config *config, const char *name, struct pg_json_problem *problem)
{
	if (name && !pg_record_name_valid(name))
		return pg_json_fail(problem, "/cgroup_parent", NULL,
				    "the name of a cgroup at the top of the hierarchy is needed");
	return replace(&config->parent, name);
}

static int read_group(struct pg_config *config, const char *name, struct pg_json_problem *problem)
{
	const struct group *group;

	if (!name)
		return 0;
	group = getgrnam(name);
	if (!group)
		return pg_json_fail(problem, "/group", NULL,
				    "there is no group %s: make it (groupadd --system %s), or name"
				    " another",
				    name, name);
	config->has_group = true;
	config->group = group->gr_gid;
	return 0;
}

/* ADDRESS or ADDRESS/LENGTH. */
static int parse_prefix(const char *text, struct pg_prefix *ret_prefix)
{
	pg_autofree char *copy = strdup(text);
	char *slash = copy ? strchr(copy, '/') : NULL, *end;
	struct pg_addr addr;
	unsigned long length;

	if (!copy)
		return -ENOMEM;
	if (slash)
		*slash++ = '\0';
	if (pg_addr_parse(copy, &addr) < 0)
		return -EINVAL;
	*ret_prefix = pg_prefix_from_addr(&addr);
	if (!slash)
		return 0;
	length = strtoul(slash, &end, 10);
	if (*slash < '0' || *slash > '9' || *end || length > ret_prefix->length)
		return -EINVAL;
	ret_prefix->length = (uint8_t)length;
	return pg_prefix_mask(ret_prefix) ? -EDOM : 0;
}

static int fail_element(struct pg_json_problem *problem, const char *field, size_t index,
			const char *message)
{
	char pointer[64];

	snprintf(pointer, sizeof(pointer), "/%s/%zu", field, index);
	return pg_json_fail(problem, pointer, NULL, "%s", message);
}

static int read_never_allow(struct pg_config *config, const struct pg_json_value *array,
			    struct pg_json_problem *problem)
{
	const struct pg_json_value *element;
	struct pg_prefix *prefixes;
	size_t count = 0;

	if (!array)
		return 0;
	prefixes = calloc(pg_json_count(array) + 1, sizeof(*prefixes));
	if (!prefixes)
		return -ENOMEM;
	free(config->never_allow);
	config->never_allow = prefixes;
	for (element = pg_json_first(array); element; element = pg_json_next(element)) {
		const char *text = pg_json_string_of(element);
		int error = text ? parse_prefix(text, &prefixes[count]) : -EINVAL;

		if (error == -ENOMEM)
			return error;
		if (error)
			return fail_element(
				problem, "never_allow", count,
				error == -EDOM
					? "the address has bits set beyond the prefix length"
					: "an address or a CIDR range is needed, as a string");
		count++;
	}
	config->never_allow_count = count;
	return 0;
}

static int read_host_ports(struct pg_config *config, const struct pg_json_value *array,
			   struct pg_json_problem *problem)
{
	const struct pg_json_value *element;
	size_t count = 0;
	uint16_t *ports;

	if (!array)
		return 0;
	ports = calloc(pg_json_count(array) + 1, sizeof(*ports));
	if (!ports)
		return -ENOMEM;
	free(config->host_ports);
	config->host_ports = ports;
	for (element = pg_json_first(array); element; element = pg_json_next(element)) {
		uint64_t port;

		if (!pg_json_number_of(element, UINT16_MAX, &port) || port == 0)
			return fail_element(problem, "host_ports", count,
					    "a port from 1 to 65535 is needed");
		ports[count++] = (uint16_t)port;
	}
	config->host_ports_given = true;
	config->host_port_count = count;
	return 0;
}

static int read_resolvers(struct pg_config *config, const struct pg_json_value *array,
			  struct pg_json_problem *problem)
{
	const struct pg_json_value *element;
	size_t count = 0;

	if (!array)
		return 0;
	for (element = pg_json_first(array); element; element = pg_json_next(element)) {
		const char *text = pg_json_string_of(element);

		if (!text || pg_endpoint_parse(text, PG_PORT_DNS, &config->resolvers[count]) < 0)
			return fail_element(problem, "resolvers", count,
					    "an address is needed, with a port if it is not 53: "
					    "\"192.0.2.53\", \"[2001:db8::53]:5353\"");
		count++;
	}
	config->resolver_count = count;
	return 0;
}

static int read_exposures(struct pg_config *config, const struct pg_json_value *object,
			  struct pg_json_problem *problem)
{
	const struct pg_json_value *element = object ? pg_json_first(object) : NULL;

	for (; element; element = pg_json_next(element)) {
		const char *name = pg_json_name_of(element), *word = pg_json_string_of(element);
		enum pg_exposure_level level;
		enum pg_exposure_id id;
		char pointer[128];

		snprintf(pointer, sizeof(pointer), "/exposures/%s", name);
		if (pg_exposure_parse(name, &id) < 0)
			return pg_json_fail(
				problem, pointer, NULL,
				"there is no exposure of that id; docs/containers.md lists them");
		if (!word || pg_exposure_level_parse(word, &level) < 0)
			return pg_json_fail(problem, pointer, NULL,
					    "the levels are refuse, ask, warn and list");
		config->exposures[id] = level;
	}
	return 0;
}

static int read_runtimes(struct pg_config *config, const struct settings *settings,
			 struct pg_json_problem *problem)
{
	int error = read_path(&config->runtimes[PG_RUNTIME_DOCKER], settings->docker_socket,
			      "/docker_socket", problem);

	if (!error)
		error = read_path(&config->runtimes[PG_RUNTIME_PODMAN], settings->podman_socket,
				  "/podman_socket", problem);
	if (!error)
		error = read_path(&config->runtimes[PG_RUNTIME_CONTAINERD],
				  settings->containerd_state, "/containerd_state", problem);
	return error;
}

static int read_limits(struct pg_config *config, const struct settings *settings,
		       struct pg_json_problem *problem)
{
	const char *none = !settings->clients_per_user	      ? "/clients_per_user"
			   : !settings->environments_per_user ? "/environments_per_user"
			   : !settings->members_per_user      ? "/members_per_user"
							      : NULL;

	if (none)
		return pg_json_fail(problem, none, NULL, "at least 1 is needed");
	config->clients_per_user = settings->clients_per_user;
	config->environments_per_user = settings->environments_per_user;
	config->members_per_user = settings->members_per_user;
	config->entries_per_user = settings->entries_per_user;
	return 0;
}

static int apply(struct pg_config *config, const struct settings *settings,
		 struct pg_json_problem *problem)
{
	int error = read_path(&config->socket, settings->socket, "/socket", problem);

	if (!error)
		error = read_path(&config->pins, settings->pins, "/pins", problem);
	if (!error)
		error = read_runtimes(config, settings, problem);
	if (!error)
		error = read_parent(config, settings->cgroup_parent, problem);
	if (!error)
		error = read_group(config, settings->group, problem);
	if (!error && settings->log_level &&
	    pg_log_level_parse(settings->log_level, &config->log_level) < 0)
		error = pg_json_fail(problem, "/log_level", NULL,
				     "the levels are error, warning, info and debug");
	if (!error)
		error = read_never_allow(config, settings->never_allow, problem);
	if (!error)
		error = read_host_ports(config, settings->host_ports, problem);
	if (!error)
		error = read_resolvers(config, settings->resolvers, problem);
	if (!error)
		error = read_exposures(config, settings->exposures, problem);
	if (!error)
		error = read_limits(config, settings, problem);
	return error;
}

static int fail(const char *name, int error, const struct pg_json_problem *problem,
		struct pg_error *err)
{
	if (error != -EINVAL)
		return pg_fail_errno(err, error, "cannot read the settings of %s", name);
	return pg_fail(err, error, "%s: %s%s%s%s%s%s", name, problem->pointer,
		       *problem->pointer ? ": " : "", problem->message,
		       *problem->hint ? "; write \"" : "", problem->hint,
		       *problem->hint ? "\"" : "");
}

int pg_config_parse(struct pg_config *config, const char *name, const char *text, size_t size,
		    struct pg_error *err)
{
	pg_autojson struct pg_json *json = NULL;
	struct pg_json_problem problem = {};
	struct settings settings = {.clients_per_user = config->clients_per_user,
				    .environments_per_user = config->environments_per_user,
				    .members_per_user = config->members_per_user,
				    .entries_per_user = config->entries_per_user};
	int error = pg_json_parse(text, size, &limits, &json, &problem);

	if (!error)
		error = pg_json_read(json, pg_json_root(json), "", fields, PG_ARRAY_SIZE(fields),
				     &settings, &problem);
	if (!error)
		error = apply(config, &settings, &problem);
	return error ? fail(name, error, &problem, err) : 0;
}

int pg_config_read(struct pg_config *config, const char *path, bool must_exist,
		   struct pg_error *err)
{
	pg_autofree char *text = NULL;
	struct pg_error unused = {};
	size_t size;
	int error = pg_file_read(path, FILE_MAX, &text, &size, must_exist ? err : &unused);

	if (error == -ENOENT && !must_exist)
		return 0;
	if (error) {
		if (!must_exist)
			*err = unused;
		return error;
	}
	return pg_config_parse(config, path, text, size, err);
}
