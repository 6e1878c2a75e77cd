/* SPDX-License-Identifier: Apache-2.0 */
#include "containerd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "inspect.h"

#define TASKS		"io.containerd.runtime.v2.task"
/* Shorter beginnings of an id are more likely a mistake than meant. */
#define ID_BEGINNING	4
/* "123456\n" */
#define PID_FILE_OCTETS 16
#define NERDCTL_NAME	"nerdctl/name"

enum match {
	MATCH_NONE,
	MATCH_BEGINNING,
	MATCH_WHOLE, /* the id, or a name given by nerdctl */
};

/* The best one so far. */
struct search {
	const char *name;
	enum match match;
	unsigned int count; /* as good as that */
	char *id;
	int task_fd;
};

static void end_search(struct search *search)
{
	free(search->id);
	pg_close_fd(&search->task_fd);
}

static int read_spec(int task_fd, struct pg_json **ret_json, struct pg_error *err)
{
	pg_autofree char *text = NULL;
	size_t size;
	int error = pg_file_read_at(task_fd, "config.json", PG_CONTAINER_OCTETS, &text, &size, err);

	return error ? error : pg_container_parse(text, size, ret_json, err);
}

static const char *nerdctl_name(const struct pg_json *spec)
{
	return pg_container_text(pg_json_root(spec), "annotations", NERDCTL_NAME);
}

static enum match match_task(const struct search *search, int task_fd, const char *id)
{
	const size_t length = strlen(search->name);
	pg_autojson struct pg_json *spec = NULL;
	struct pg_error unused = {};
	const char *name;

	if (strcmp(id, search->name) == 0)
		return MATCH_WHOLE;
	if (length >= ID_BEGINNING && strncmp(id, search->name, length) == 0)
		return MATCH_BEGINNING;
	if (read_spec(task_fd, &spec, &unused) < 0)
		return MATCH_NONE;
	name = nerdctl_name(spec);
	return name && strcmp(name, search->name) == 0 ? MATCH_WHOLE : MATCH_NONE;
}

static int look_at_task(struct search *search, int namespace_fd, const char *id)
{
	pg_autoclose int fd = openat(namespace_fd, id, O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	const enum match match = fd < 0 ? MATCH_NONE : match_task(search, fd, id);

	if (match == MATCH_NONE || match < search->match)
		return 0;
	if (match > search->match)
		search->count = 0;
	search->match = match;
	search->count++;
	pg_close_fd(&search->task_fd);
	search->task_fd = PG_TAKE_FD(fd);
	return pg_container_copy(&search->id, id);
}

static int look_at_namespace(struct search *search, int tasks_fd, const char *name)
{
	pg_autoclose int fd = openat(tasks_fd, name, O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	pg_autoclosedir DIR *dir = fd < 0 ? NULL : pg_dir_reopen(fd);
	const struct dirent *entry;
	int error = 0;

	while (dir && !error && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			error = look_at_task(search, fd, entry->d_name);
	return error;
}

static int look(struct search *search, const char *state, struct pg_error *err)
{
	pg_autofree char *path = NULL;
	pg_autoclose int fd = -1;
	pg_autoclosedir DIR *dir = NULL;
	const struct dirent *entry;
	int error = 0;

	if (asprintf(&path, "%s/" TASKS, state) < 0) {
		path = NULL;
		return pg_fail(err, -ENOMEM, "no memory to look for a container");
	}
	fd = open(path, O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return pg_fail(err, -ENOTCONN, "containerd keeps no state in %s", path);
	dir = fd < 0 ? NULL : pg_dir_reopen(fd);
	if (!dir)
		return pg_fail_errno(err, -errno, "cannot look into %s", path);
	while (!error && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			error = look_at_namespace(search, fd, entry->d_name);
	return error ? pg_fail(err, error, "no memory to look for a container") : 0;
}

static int read_pid(int task_fd, pid_t *ret_pid)
{
	pg_autofree char *text = NULL;
	struct pg_error unused = {};
	size_t size;
	unsigned long pid;
	char *end;

	if (pg_file_read_at(task_fd, "init.pid", PID_FILE_OCTETS, &text, &size, &unused) < 0)
		return -ESRCH;
	pid = strtoul(text, &end, 10);
	if (end == text || pid == 0 || pid > INT_MAX)
		return -ESRCH;
	*ret_pid = (pid_t)pid;
	return 0;
}

/* The path of the shim, which says what executes the task; containerd 1.5 and later keep it. */
static int read_executor(int task_fd, struct pg_container *container)
{
	pg_autofree char *text = NULL;
	struct pg_error unused = {};
	const char *slash;
	size_t size;

	if (pg_file_read_at(task_fd, "shim-binary-path", PATH_MAX, &text, &size, &unused) < 0)
		return 0;
	text[strcspn(text, "\n")] = '\0';
	slash = strrchr(text, '/');
	return pg_container_copy(&container->executor, slash ? slash + 1 : text);
}

/* The network namespace is one of its own without a path, somebody's with a path, or the host's. */
static const char *network_mode(const struct pg_json_value *spec)
{
	const struct pg_json_value *namespaces =
		pg_json_member(pg_json_member(spec, "linux"), "namespaces");

	if (!namespaces || !pg_json_is_array(namespaces))
		return NULL;
	for (const struct pg_json_value *n = pg_json_first(namespaces); n; n = pg_json_next(n)) {
		const char *type = pg_container_text(n, "type", NULL);

		if (type && strcmp(type, "network") == 0)
			return pg_container_text(n, "path", NULL) ? "path" : "private";
	}
	return "host";
}

static int read_task(const struct search *search, struct pg_container *container,
		     struct pg_error *err)
{
	pg_autojson struct pg_json *spec = NULL;
	const struct pg_json_value *root;
	int error = read_spec(search->task_fd, &spec, err);

	if (error)
		return error;
	root = pg_json_root(spec);
	error = pg_container_copy(&container->id, search->id);
	if (!error)
		error = pg_container_copy(&container->name,
					  nerdctl_name(spec) ? nerdctl_name(spec) : search->id);
	if (!error)
		error = pg_container_copy(&container->network_mode, network_mode(root));
	if (!error)
		error = pg_container_read_proxies(container,
						  pg_json_member(pg_json_member(root, "process"),
								 "env"));
	if (!error)
		error = read_executor(search->task_fd, container);
	if (!error)
		error = pg_container_read_devices(container,
						  pg_json_member(pg_json_member(root, "linux"),
								 "devices"),
						  "path");
	if (error)
		return pg_fail(err, error, "no memory for a container");
	if (read_pid(search->task_fd, &container->pid) < 0)
		return pg_fail(err, -ESRCH, "the container %s does not run", container->name);
	return 0;
}

int pg_containerd_find(const char *state, const char *name, struct pg_container *container,
		       struct pg_error *err)
{
	PG_CLEANUP(end_search) struct search search = {.name = name, .task_fd = -1};
	int error = look(&search, state, err);

	if (error)
		return error;
	if (search.match == MATCH_NONE)
		return pg_fail(err, -ENOENT, "containerd runs no container %s", name);
	if (search.count > 1)
		return pg_fail(err, -ENOTUNIQ, "containerd runs %u containers that %s could be",
			       search.count, name);
	return read_task(&search, container, err);
}
