/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include <criterion/criterion.h>

#include "kernel/mountinfo.h"

static bool all_usable(void *userdata, const char *point)
{
	return true;
}

static bool all_but(void *userdata, const char *point)
{
	return strcmp(point, userdata) != 0;
}

static void check_found(const char *text, const char *type, const char *expected)
{
	pg_autofree char *point = NULL;

	cr_assert_eq(pg_mountinfo_find(text, type, all_usable, NULL, &point), 0, "%s", text);
	cr_assert_str_eq(point, expected);
}

static void check_missing(const char *text, const char *type)
{
	char *point = (char *)"untouched";

	cr_assert_eq(pg_mountinfo_find(text, type, all_usable, NULL, &point), -ENOENT, "%s", text);
	cr_assert_str_eq(point, "untouched");
}

#define PURE \
	"22 27 0:21 / /proc rw,nosuid - proc proc rw\n" \
	"30 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev shared:9 - cgroup2 cgroup2 rw,nsdelegate\n" \
	"33 23 0:29 / /sys/fs/bpf rw,nosuid shared:12 - bpf bpf rw,mode=700\n"

#define HYBRID \
	"31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n" \
	"32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n" \
	"41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"

Test(mountinfo, pure_and_hybrid)
{
	check_found(PURE, "cgroup2", "/sys/fs/cgroup");
	check_found(PURE, "bpf", "/sys/fs/bpf");
	check_found(HYBRID, "cgroup2", "/sys/fs/cgroup/unified");
	check_found(HYBRID, "cgroup", "/sys/fs/cgroup/cpu");
}

Test(mountinfo, none)
{
	check_missing("", "cgroup2");
	check_missing("\n\n", "cgroup2");
	check_missing(PURE, "cgroup");
	check_missing(HYBRID, "bpf");
	/* Neither the source nor the mount point is the type. */
	check_missing("30 23 0:26 / /cgroup2 rw - tmpfs cgroup2 rw\n", "cgroup2");
}

Test(mountinfo, octal_escapes)
{
	check_found("30 23 0:26 / /a\\040b\\011c\\134040\\012 rw - cgroup2 none rw\n", "cgroup2",
		    "/a b\tc\\040\n");
	/* What is no escape stays as it is. */
	check_found("30 23 0:26 / /a\\04 rw - cgroup2 none rw\n", "cgroup2", "/a\\04");
	check_found("30 23 0:26 / /a\\0489 rw - cgroup2 none rw\n", "cgroup2", "/a\\0489");
	check_found("30 23 0:26 / /a\\ rw - cgroup2 none rw\n", "cgroup2", "/a\\");
}

Test(mountinfo, optional_fields)
{
	check_found("30 23 0:26 / /x rw shared:1 master:2 propagate_from:3 - cgroup2 none rw\n",
		    "cgroup2", "/x");
	check_found("30 23 0:26 / /x rw - cgroup2 none rw", "cgroup2", "/x");
	/* A mount point of one hyphen is not the end of the optional fields. */
	check_found("30 23 0:26 / - rw - cgroup2 none rw\n", "cgroup2", "-");
}

Test(mountinfo, root_is_preferred)
{
	const char text[] = "50 23 0:26 / /whole rw - cgroup2 none rw\n"
			    "51 23 0:26 /some/group /part rw - cgroup2 none rw\n";

	check_found(text, "cgroup2", "/whole");
	check_found("51 23 0:26 /some/group /part rw - cgroup2 none rw\n", "cgroup2", "/part");
}

Test(mountinfo, unusable_are_passed_over)
{
	const char text[] = "50 23 0:26 / /first rw - cgroup2 none rw\n"
			    "51 23 0:26 / /second rw - cgroup2 none rw\n";
	char second[] = "/second", first[] = "/first";
	pg_autofree char *point = NULL;
	char *none = NULL;

	check_found(text, "cgroup2", "/second");
	cr_assert_eq(pg_mountinfo_find(text, "cgroup2", all_but, second, &point), 0);
	cr_assert_str_eq(point, "/first");
	cr_assert_eq(pg_mountinfo_find("50 23 0:26 / /first rw - cgroup2 none rw\n", "cgroup2",
				       all_but, first, &none),
		     -ENOENT);
}

Test(mountinfo, malformed)
{
	check_missing("30\n30 23 0:26\n30 23 0:26 / /x rw\n30 23 0:26 / /x rw -\n - \n", "cgroup2");
	check_missing("30 23 0:26 / /x rw shared:1 cgroup2 none rw\n", "cgroup2");
	check_found("nonsense\n30 23 0:26 / /x rw - cgroup2 none rw\n", "cgroup2", "/x");
}

Test(cgroup_v1, controllers)
{
	const char text[] = "9:name=systemd:/\n"
			    "5:net_cls,net_prio:/a,b:net_raw\n"
			    "4:memory:/x\n"
			    "0::/user.slice,cpuset\n";

	cr_assert(pg_cgroup_v1_has(text, "net_cls"));
	cr_assert(pg_cgroup_v1_has(text, "net_prio"));
	cr_assert(pg_cgroup_v1_has(text, "memory"));
	cr_assert_not(pg_cgroup_v1_has(text, "net"));
	cr_assert_not(pg_cgroup_v1_has(text, "net_raw"));
	cr_assert_not(pg_cgroup_v1_has(text, "cpuset"));
	cr_assert_not(pg_cgroup_v1_has("0::/\n", "net_cls"));
	cr_assert_not(pg_cgroup_v1_has("", "net_cls"));
}

Test(cgroup_v2, own_path)
{
	pg_autofree char *path = NULL, *root = NULL, *none = NULL;

	cr_assert_eq(pg_cgroup2_path("9:name=systemd:/\n0::/a b/c:d\n", &path), 0);
	cr_assert_str_eq(path, "/a b/c:d");
	cr_assert_eq(pg_cgroup2_path("0::/", &root), 0);
	cr_assert_str_eq(root, "/");
	cr_assert_eq(pg_cgroup2_path("10::/x\n4:memory:/0::/\n0::\n", &none), -ENOENT);
	cr_assert_eq(pg_cgroup2_path("", &none), -ENOENT);
}
