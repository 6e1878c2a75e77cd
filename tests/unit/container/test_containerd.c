/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks of containerd, as directories. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "container/container.h"

static char state[32];

static void write_file(const char *directory, const char *name, const char *text)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	file = fopen(path, "we");
	cr_assert_not_null(file);
	fputs(text, file);
	fclose(file);
}

static void add_task(const char *namespace, const char *id, const char *pid, const char *spec)
{
	char path[192];

	snprintf(path, sizeof(path), "%s/io.containerd.runtime.v2.task", state);
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/io.containerd.runtime.v2.task/%s", state, namespace);
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/io.containerd.runtime.v2.task/%s/%s", state, namespace,
		 id);
	cr_assert_eq(mkdir(path, 0700), 0);
	if (pid)
		write_file(path, "init.pid", pid);
	write_file(path, "config.json", spec);
}

static void set_up(void)
{
	strcpy(state, "/tmp/pgt-state-XXXXXX");
	cr_assert_not_null(mkdtemp(state));
}

static int remove_one(const char *path, const struct stat *unused, int type, struct FTW *ftw)
{
	return remove(path);
}

static void tear_down(void)
{
	nftw(state, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static int find(const char *name, struct pg_container *container)
{
	struct pg_runtimes runtimes = {
		.paths = {"/nonexistent", "/nonexistent", state},
		.deadline = pg_monotonic_ns() + PG_NSEC_PER_SEC,
	};
	struct pg_error err = {};

	return pg_container_find(&runtimes, PG_RUNTIME_CONTAINERD, name, container, &err);
}

TestSuite(containerd, .init = set_up, .fini = tear_down);

static const char shared[] = "{\"linux\":{\"namespaces\":[{\"type\":\"pid\"}]}}";
static const char own[] =
	"{\"process\":{\"env\":[\"https_proxy=http://p:1\"]},\"annotations\":{"
	"\"nerdctl/name\":\"web\"},\"linux\":{\"namespaces\":[{\"type\":\"network\"}]}}";

Test(containerd, by_id_name_and_beginning)
{
	static const char *const names[] = {"0123456789abcdef", "web", "0123"};

	add_task("default", "0123456789abcdef", "77", own);
	add_task("k8s.io", "other", "78\n", shared);
	for (size_t i = 0; i < PG_ARRAY_SIZE(names); i++) {
		pg_autocontainer struct pg_container container = {0};

		cr_assert(eq(int, find(names[i], &container), 0), "%s", names[i]);
		cr_assert_str_eq(container.id, "0123456789abcdef");
		cr_assert_str_eq(container.name, "web");
		cr_assert(eq(int, container.pid, 77));
		cr_assert_str_eq(container.network_mode, "private");
		cr_assert(eq(sz, container.proxy_count, 1));
	}
}

Test(containerd, host_network)
{
	pg_autocontainer struct pg_container container = {0};

	add_task("default", "one", "78\n", shared);
	cr_assert(eq(int, find("one", &container), 0));
	cr_assert(eq(int, container.pid, 78));
	cr_assert_str_eq(container.network_mode, "host");
}

Test(containerd, what_cannot_be_found)
{
	pg_autocontainer struct pg_container container = {0};

	cr_assert(eq(int, find("one", &container), -ENOTCONN));
	add_task("default", "stopped", NULL, own);
	add_task("default", "nonsense", "x", shared);
	add_task("a", "twice", "1", shared);
	add_task("b", "twice", "2", shared);
	add_task("a", "broken", "1", "{");
	cr_assert(eq(int, find("one", &container), -ENOENT));
	cr_assert(eq(int, find("sto", &container), -ENOENT));
	cr_assert(eq(int, find("stopped", &container), -ESRCH));
	cr_assert(eq(int, find("nonsense", &container), -ESRCH));
	cr_assert(eq(int, find("twice", &container), -ENOTUNIQ));
	cr_assert(eq(int, find("broken", &container), -EPROTO));
	cr_assert(eq(int, find("..", &container), -EINVAL));
}
