/* SPDX-License-Identifier: Apache-2.0 */
#include "dns/resolv_conf.h"

#include <criterion/criterion.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A file without a name; the path leads to it while it is open. */
static const char *file_of(const void *text, size_t size)
{
	static char path[64];
	static int fd = -1;

	pg_close_fd(&fd);
	fd = memfd_create("text", MFD_CLOEXEC);
	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, text, size), (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return path;
}

static void expect_servers(const char *text, const char *expected)
{
	struct pg_endpoint servers[PG_NAMESERVERS_MAX];
	char found[256] = "", buffer[PG_ADDR_TEXT];
	struct pg_error err;
	size_t count = 0;
	int r;

	r = pg_resolv_conf_read(file_of(text, strlen(text)), servers, PG_ARRAY_SIZE(servers),
				&count, &err);
	cr_expect_eq(r, count ? 0 : -ENOENT);
	for (size_t i = 0; i < count; i++) {
		strcat(found, pg_endpoint_format(&servers[i], buffer));
		strcat(found, " ");
	}
	cr_expect_str_eq(found, expected, "%s: %s", text, found);
}

Test(resolv_conf, nameservers)
{
	expect_servers("nameserver 192.0.2.1\n", "192.0.2.1:53 ");
	expect_servers("# a comment\nsearch example.com\noptions ndots:5\nnameserver 2001:db8::1",
		       "[2001:db8::1]:53 ");
	expect_servers("nameserver\t 192.0.2.1  # the first\r\nnameserver 192.0.2.2\r\n",
		       "192.0.2.1:53 192.0.2.2:53 ");
	expect_servers("nameserver 192.0.2.1\nnameserver 192.0.2.2\nnameserver 192.0.2.3\n"
		       "nameserver 192.0.2.4\n",
		       "192.0.2.1:53 192.0.2.2:53 192.0.2.3:53 ");
}

Test(resolv_conf, lines_that_are_none)
{
	expect_servers("nameserver fe80::1%eth0\nnameserver 192.0.2.300\n nameserver 192.0.2.1\n"
		       "nameservers 192.0.2.1\nnameserver192.0.2.1\nnameserver\nnameserver \n"
		       "#nameserver 192.0.2.1\n;nameserver 192.0.2.1\n",
		       "");
	expect_servers("", "");
}

Test(resolv_conf, missing_file)
{
	struct pg_endpoint server;
	struct pg_error err;
	size_t count;

	cr_expect_eq(pg_resolv_conf_read("/nonexistent/resolv.conf", &server, 1, &count, &err),
		     -ENOENT);
	cr_expect(strstr(err.text, "/nonexistent/resolv.conf"));
	cr_expect_eq(pg_hosts_read("/nonexistent/hosts", NULL, NULL, &err), -ENOENT);
	cr_expect(strstr(err.text, "/nonexistent/hosts"));
}

Test(resolv_conf, file_size)
{
	static char text[64 * 1024 + 1];
	static const char line[] = "\nnameserver 192.0.2.1";
	struct pg_endpoint server;
	struct pg_error err;
	size_t count;

	memset(text, '#', sizeof(text));
	memcpy(text + sizeof(text) - sizeof(line), line, sizeof(line) - 1);
	text[sizeof(text) - 1] = '\n';
	cr_expect_eq(pg_resolv_conf_read(file_of(text, sizeof(text) - 1), &server, 1, &count, &err),
		     0);
	cr_expect_eq(pg_resolv_conf_read(file_of(text, sizeof(text)), &server, 1, &count, &err),
		     -EFBIG);
}

static int collect(void *userdata, const char *name, const struct pg_addr *addr)
{
	char text[PG_ADDR_TEXT], *found = userdata;
	size_t used = strlen(found);

	snprintf(found + used, 1024 - used, "%s=%s ", name, pg_addr_format(addr, text));
	return 0;
}

static int refuse(void *userdata, const char *name, const struct pg_addr *addr)
{
	unsigned int *calls = userdata;

	return ++*calls == 2 ? -ENOSPC : 0;
}

static void expect_hosts(const char *text, const char *expected)
{
	char found[1024] = "";
	struct pg_error err;

	cr_expect_eq(pg_hosts_read(file_of(text, strlen(text)), collect, found, &err), 0);
	cr_expect_str_eq(found, expected, "%s: %s", text, found);
}

Test(hosts, names_and_aliases)
{
	expect_hosts("127.0.0.1 localhost\n::1\tlocalhost ip6-localhost\n",
		     "localhost=127.0.0.1 localhost=::1 ip6-localhost=::1 ");
	expect_hosts("  192.0.2.1  Host.Docker.Internal. gateway # not this\r\n",
		     "host.docker.internal=192.0.2.1 gateway=192.0.2.1 ");
	expect_hosts("192.0.2.1 a\n192.0.2.2 a", "a=192.0.2.1 a=192.0.2.2 ");
	expect_hosts("192.0.2.1 db_1#x y\n", "db_1=192.0.2.1 ");
	expect_hosts("", "");
}

Test(hosts, lines_that_are_passed_over)
{
	expect_hosts("# 192.0.2.1 a\n\n \t\nlocalhost 127.0.0.1\n192.0.2.300 a\nfe80::1%eth0 a\n"
		     "192.0.2.1\n192.0.2.1 # a\n192.0.2.1#a b\n",
		     "");
	expect_hosts("192.0.2.1 a..b . \\a \xc3\xa4 fine\n", "fine=192.0.2.1 ");
}

Test(hosts, longest_name)
{
	char line[300] = "192.0.2.1 ", *name = line + strlen(line), found[1024] = "";
	struct pg_error err;

	for (size_t length = 253; length <= 254; length++) {
		memset(name, 'a', length);
		name[63] = name[127] = name[191] = '.';
		name[length] = '\0';
		found[0] = '\0';
		cr_expect_eq(pg_hosts_read(file_of(line, strlen(line)), collect, found, &err), 0);
		cr_expect_eq(strlen(found), length == 253 ? 253 + strlen("=192.0.2.1 ") : 0);
	}
}

Test(hosts, the_sink_can_end_it)
{
	static const char text[] = "192.0.2.1 a b c\n192.0.2.2 d\n";
	unsigned int calls = 0;
	struct pg_error err;

	cr_expect_eq(pg_hosts_read(file_of(text, strlen(text)), refuse, &calls, &err), -ENOSPC);
	cr_expect_eq(calls, 2);
}

Test(hosts, file_size)
{
	const size_t most = 16UL * 1024 * 1024;
	struct pg_error err;

	for (size_t size = most; size <= most + 1; size++) {
		const char *path = file_of("", 0);

		cr_assert_eq(truncate(path, (off_t)size), 0);
		cr_expect_eq(pg_hosts_read(path, NULL, NULL, &err), size == most ? 0 : -EFBIG);
	}
}
