/* SPDX-License-Identifier: Apache-2.0 */
#include "containers.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"

void pg_member_container_free(struct pg_member_container *member)
{
	if (!member)
		return;
	pg_container_clear(&member->container);
	pg_container_clear(&member->owner);
	free(member);
}

static void free_member(struct pg_member_container **member)
{
	pg_member_container_free(*member);
}

const struct pg_container *pg_member_container_network(const struct pg_member_container *member)
{
	return member->owner.id ? &member->owner : &member->container;
}

static enum pg_api_error code_of(int error)
{
	switch (error) {
	case -ENOENT:
	case -ENOTUNIQ:
		return PG_API_CONTAINER_NOT_FOUND;
	case -ESRCH:
		return PG_API_CONTAINER_NOT_RUNNING;
	case -EINVAL:
		return PG_API_REQUEST_INVALID;
	case -ENOMEM:
		return PG_API_OUT_OF_MEMORY;
	default:
		return PG_API_RUNTIME_UNAVAILABLE;
	}
}

static int find(const struct pg_runtimes *runtimes, const char *runtime, const char *name,
		struct pg_container *ret_container, struct pg_error *err)
{
	enum pg_runtime one;

	if (!runtime)
		return pg_container_find_any(runtimes, name, ret_container, err);
	if (pg_runtime_parse(runtime, &one) < 0)
		return pg_fail(err, -EINVAL, "the runtimes are docker, podman and containerd");
	return pg_container_find(runtimes, one, name, ret_container, err);
}

/* Whoever may use the runtime could stop the container, or start it with other networks. */
static bool may_use(const struct pg_caller *caller, const char *path, enum pg_runtime runtime)
{
	pg_autofree char *socket = NULL;
	struct stat stat_of;

	if (caller->uid == 0)
		return true;
	if (asprintf(&socket, "%s%s", path,
		     runtime == PG_RUNTIME_CONTAINERD ? "/containerd.sock" : "") < 0) {
		socket = NULL;
		return false;
	}
	if (stat(socket, &stat_of))
		return false;
	if (stat_of.st_uid == caller->uid)
		return stat_of.st_mode & S_IWUSR;
	if (pg_caller_in_group(caller, stat_of.st_gid))
		return stat_of.st_mode & S_IWGRP;
	return stat_of.st_mode & S_IWOTH;
}

/* "ID", "docker-ID.scope", "libpod-ID", as the runtimes name a cgroup. */
static bool is_named_after(const char *part, size_t length, const char *id)
{
	static const char scope[] = ".scope";
	const size_t id_length = strlen(id);

	if (length > strlen(scope) &&
	    memcmp(part + length - strlen(scope), scope, strlen(scope)) == 0)
		length -= strlen(scope);
	if (length < id_length || memcmp(part + length - id_length, id, id_length) != 0)
		return false;
	return length == id_length || part[length - id_length - 1] == '-';
}

/*
 * Cuts the path of the container's first process after the container's own cgroup: an init system
 * inside moves itself further down. The uppermost one counts, since what is below is made inside.
 */
static bool cut_after_id(char *path, const char *id)
{
	for (char *part = path; *part; part += strcspn(part, "/")) {
		size_t length = strcspn(++part, "/");

		if (!is_named_after(part, length, id))
			continue;
		part[length] = '\0';
		return true;
	}
	return false;
}

/* What the process, or one that it executes, may ever have. */
static uint64_t read_capabilities(const struct pg_caller *process)
{
	pg_autofree char *text = NULL;
	struct pg_error unused = {};
	const char *line;
	size_t size;

	if (pg_file_read_at(process->proc_fd, "status", 65536, &text, &size, &unused) < 0)
		return UINT64_MAX;
	line = strstr(text, "\nCapBnd:");
	return line ? strtoull(line + strlen("\nCapBnd:"), NULL, 16) : UINT64_MAX;
}

/* Without the container's id in its name only what is there tells whose a cgroup is. */
static int check_still(const struct pg_runtimes *runtimes, const struct pg_container *container,
		       const char *object, struct pg_reply *reply)
{
	pg_autocontainer struct pg_container again = {0};
	struct pg_error err = {};
	int error = pg_container_find(runtimes, container->runtime, container->id, &again, &err);

	if (error)
		return pg_reply_error(reply, code_of(error), object, NULL, "%s", err.text);
	if (again.pid != container->pid)
		return pg_reply_error(reply, PG_API_CONTAINER_NOT_RUNNING, object, NULL,
				      "the container %s was started anew meanwhile",
				      container->name);
	return 0;
}

static int find_cgroup(const struct pg_agent *agent, const struct pg_runtimes *runtimes,
		       const char *object, struct pg_member_container *member, char **ret_path,
		       struct pg_reply *reply)
{
	const struct pg_container *container = &member->container;
	PG_CLEANUP(pg_caller_clear) struct pg_caller process;
	pg_autofree char *path = NULL;
	struct pg_error err = {};
	uint64_t capabilities;
	bool named;
	int error = pg_caller_of_pid(container->pid, &process, &err);

	if (!error)
		error = pg_caller_cgroup(&process, &path, &err);
	if (error)
		return pg_reply_error(reply,
				      error == -ESRCH ? PG_API_CONTAINER_NOT_RUNNING
						      : PG_API_CONTAINER_UNSUPPORTED,
				      object, NULL, "the container %s: %s", container->name,
				      err.text);
	if (strcmp(path, "/") == 0)
		return pg_reply_error(reply, PG_API_CONTAINER_UNSUPPORTED, object, NULL,
				      "the container %s has no cgroup of its own", container->name);
	capabilities = read_capabilities(&process);
	member->net_admin = capabilities >> CAP_NET_ADMIN & 1;
	named = cut_after_id(path, container->id);
	if (!named) {
		error = check_still(runtimes, container, object, reply);
		if (error)
			return error;
	}
	error = pg_member_check_alone(agent, &process, path, named, object, reply);
	if (!error)
		*ret_path = PG_TAKE_PTR(path);
	return error;
}

/* Its owner may be gone; the namespace stays. */
static void find_owner(const struct pg_runtimes *runtimes, struct pg_member_container *member)
{
	const char *owner = pg_network_owner(member->container.network_mode);
	struct pg_error unused = {};

	if (owner && pg_container_find(runtimes, member->container.runtime, owner, &member->owner,
				       &unused) < 0)
		member->owner = (struct pg_container){0};
}

int pg_member_of_container(const struct pg_agent *agent, const struct pg_caller *caller,
			   const char *runtime, const char *name, const char *object,
			   struct pg_member_list *list, char **ret_path,
			   struct pg_member_container **ret_member, struct pg_reply *reply)
{
	PG_CLEANUP(free_member) struct pg_member_container *member = calloc(1, sizeof(*member));
	const struct pg_runtimes runtimes = pg_member_list_runtimes(agent, list);
	struct pg_error err = {};
	int error;

	if (!member) {
		pg_reply_error(reply, PG_API_OUT_OF_MEMORY, object, NULL,
			       "no memory for a container");
		return -ENOMEM;
	}
	error = find(&runtimes, runtime, name, &member->container, &err);
	if (error)
		return pg_reply_error(reply, code_of(error), object, NULL, "%s", err.text);
	if (!may_use(caller, runtimes.paths[member->container.runtime], member->container.runtime))
		return pg_reply_error(reply, PG_API_MEMBER_NOT_YOURS, object,
				      "call as a user who may use the container runtime's socket",
				      "the caller may not use %s itself",
				      pg_runtime_name(member->container.runtime));
	error = find_cgroup(agent, &runtimes, object, member, ret_path, reply);
	if (error)
		return error;
	find_owner(&runtimes, member);
	*ret_member = PG_TAKE_PTR(member);
	return 0;
}

static void describe_block(struct pg_json_writer *json, const char *name, const char *text)
{
	pg_json_write_open(json, NULL, '{');
	pg_json_write_string(json, "network", name);
	pg_json_write_string(json, "message", text);
	pg_json_write_close(json, '}');
}

/* What lets through less than the policy might, whatever that is. */
static void describe_blocks(const struct pg_container *container, struct pg_json_writer *json)
{
	bool ip4 = container->network_count == 0, ip6 = ip4; /* as far as is known */

	pg_json_write_open(json, "blocks", '[');
	if (container->network_mode && strcmp(container->network_mode, "none") == 0) {
		describe_block(json, "none", "there is nothing but loopback");
		ip4 = ip6 = true;
	}
	for (size_t i = 0; i < container->network_count; i++) {
		const struct pg_container_network *network = &container->networks[i];

		ip4 = ip4 || network->ip4;
		ip6 = ip6 || network->ip6;
		if (network->internal)
			describe_block(json, network->name,
				       "the network is internal: it leads to its own containers"
				       " only");
	}
	if (!ip4)
		describe_block(json, NULL,
			       "the container has no IPv4 address: it reaches no IPv4 address");
	if (!ip6)
		describe_block(json, NULL,
			       "the container has no IPv6 address: it reaches no IPv6 address");
	pg_json_write_close(json, ']');
}

void pg_member_container_describe(const struct pg_member_container *member,
				  struct pg_json_writer *json)
{
	const struct pg_container *container = &member->container;
	const struct pg_container *network = pg_member_container_network(member);

	pg_json_write_string(json, "kind", "container");
	pg_json_write_string(json, "container", container->name);
	pg_json_write_string(json, "container_id", container->id);
	pg_json_write_string(json, "runtime", pg_runtime_name(container->runtime));
	pg_json_write_open(json, "network", '{');
	pg_json_write_string(json, "mode", container->network_mode);
	pg_json_write_string(json, "owner", member->owner.name);
	pg_json_write_open(json, "networks", '[');
	for (size_t i = 0; i < network->network_count; i++)
		pg_json_write_string(json, NULL, network->networks[i].name);
	pg_json_write_close(json, ']');
	describe_blocks(network, json);
	pg_json_write_open(json, "proxies", '[');
	for (size_t i = 0; i < container->proxy_count; i++) {
		pg_json_write_open(json, NULL, '{');
		pg_json_write_string(json, "variable", container->proxies[i].variable);
		pg_json_write_string(json, "value", container->proxies[i].value);
		pg_json_write_close(json, '}');
	}
	pg_json_write_close(json, ']');
	pg_json_write_close(json, '}');
}
