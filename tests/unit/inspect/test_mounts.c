/* SPDX-License-Identifier: Apache-2.0 */
/* What mounts give, by texts as the kernel writes them. */
#include <string.h>

#include <criterion/criterion.h>

#include "inspect/parts.h"

#define HOST \
	"22 27 0:21 / /proc rw - proc proc rw\n" \
	"27 1 254:0 / / rw - ext4 /dev/vda rw\n" \
	"28 27 0:25 / /run rw - tmpfs tmpfs rw\n" \
	"31 27 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n" \
	"33 27 0:29 / /sys/fs/bpf rw - bpf bpf rw\n" \
	"34 27 254:0 /srv/docker /var/lib/docker rw - ext4 /dev/vda rw\n"

/* As Docker makes one by default. */
#define CONTAINER \
	"700 600 0:60 / / rw - overlay overlay rw,lowerdir=/l\n" \
	"701 700 0:61 / /proc rw,nosuid - proc proc rw\n" \
	"702 700 0:62 / /dev rw,nosuid - tmpfs tmpfs rw,mode=755\n" \
	"703 700 0:63 / /sys ro,nosuid - sysfs sysfs ro\n" \
	"704 703 0:28 /box/c1 /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n" \
	"705 700 254:0 /srv/docker/containers/c1/hosts /etc/hosts rw - ext4 /dev/vda rw\n" \
	"706 701 0:61 /sys /proc/sys ro - proc proc rw\n" \
	"707 701 0:61 /bus /proc/bus ro - proc proc rw\n"

static const struct pg_inspect_place places[] = {
	{"/", PG_EXPOSURE_HOST_FILES},
	{"/etc", PG_EXPOSURE_HOST_FILES},
	{"/run/docker.sock", PG_EXPOSURE_RUNTIME_SOCKET},
	{"/var/lib/docker/api", PG_EXPOSURE_RUNTIME_SOCKET},
	{"/sys/fs/bpf/phasegate", PG_EXPOSURE_BPF_FILES},
};

/* The ids that are found, with the text of the last one. */
static void look(const char *mounts, const char *cgroups, bool own_user,
		 struct pg_exposure_list *found)
{
	pg_autohostplaces struct pg_host_places host = {0};
	const struct pg_process process = {
		.mountinfo = (char *)mounts,
		.cgroups = (char *)(cgroups ? cgroups : "0::/box/c1\n"),
		.own_user = own_user,
	};
	struct pg_inspection inspection = {.name = "the container c1",
					   .cgroup = "/box/c1",
					   .places = &host,
					   .found = found};

	cr_assert_eq(pg_host_places_find(HOST, places, PG_ARRAY_SIZE(places), &host), 0);
	cr_assert_eq(host.count, PG_ARRAY_SIZE(places));
	pg_inspect_mounts(&inspection, &process);
	cr_assert_not(found->incomplete);
}

static void expect_as(const char *mounts, const char *cgroups, bool own_user,
		      enum pg_exposure_id id, const char *text)
{
	pg_autoexposures struct pg_exposure_list found = {0};

	look(mounts, cgroups, own_user, &found);
	cr_assert_eq(found.count, 1, "%zu found for %s", found.count, mounts);
	cr_expect_eq(found.items[0].id, id, "%s", found.items[0].text);
	cr_expect(strstr(found.items[0].text, text), "%s", found.items[0].text);
	cr_expect(strstr(found.items[0].text, "the container c1"));
}

static void expect(const char *mounts, enum pg_exposure_id id, const char *text)
{
	expect_as(mounts, NULL, true, id, text);
}

static void expect_nothing(const char *mounts)
{
	pg_autoexposures struct pg_exposure_list found = {0};

	look(mounts, NULL, true, &found);
	cr_expect_eq(found.count, 0, "%s", found.count ? found.items[0].text : "");
}

Test(mounts, a_container_by_default_has_nothing)
{
	expect_nothing(CONTAINER);
	expect_nothing("");
	expect_nothing("nonsense\n\n- - -\n");
}

Test(mounts, runtime_socket)
{
	expect(CONTAINER "710 700 0:25 /docker.sock /x rw - tmpfs tmpfs rw\n",
	       PG_EXPOSURE_RUNTIME_SOCKET, "/run/docker.sock, mounted at /x");
	/* Its directory, also read-only. */
	expect(CONTAINER "710 700 0:25 / /host\\040run ro - tmpfs tmpfs rw\n",
	       PG_EXPOSURE_RUNTIME_SOCKET, "mounted at /host run");
	/* Through a directory that the host has bound elsewhere. */
	expect(CONTAINER "710 700 254:0 /srv/docker/api /x rw - ext4 /dev/vda rw\n",
	       PG_EXPOSURE_RUNTIME_SOCKET, "/var/lib/docker/api");
	/* One that the settings do not know, by its name. */
	expect(CONTAINER "710 700 0:90 /user/1000/podman/podman.sock /s rw - tmpfs tmpfs rw\n",
	       PG_EXPOSURE_RUNTIME_SOCKET, "podman.sock");
	expect(CONTAINER "710 700 0:90 /a.sock /run/docker.sock rw - tmpfs tmpfs rw\n",
	       PG_EXPOSURE_RUNTIME_SOCKET, "/run/docker.sock");
	/* The same path of another file system is another file. */
	expect_nothing(CONTAINER "710 700 0:26 / /run rw - tmpfs tmpfs rw\n");
	expect_nothing(CONTAINER "710 700 0:25 /docker /x rw - tmpfs tmpfs rw\n");
}

Test(mounts, other_socket)
{
	expect(CONTAINER "710 700 0:25 /app/db.sock /db rw - tmpfs tmpfs rw\n",
	       PG_EXPOSURE_HOST_SOCKET, "/app/db.sock");
}

Test(mounts, files_of_the_host)
{
	pg_autoexposures struct pg_exposure_list found = {0};

	/* A socket of a runtime is in it as well; /etc is not told again. */
	look(CONTAINER "710 700 254:0 / /host rw - ext4 /dev/vda rw\n"
		       "711 700 0:90 / /other rw - ext4 /dev/vdb rw\n",
	     NULL, true, &found);
	cr_assert_eq(found.count, 2);
	cr_expect_eq(found.items[0].id, PG_EXPOSURE_HOST_FILES);
	cr_expect_str_eq(found.items[0].text,
			 "the container c1 has the host's /, mounted at /host");
	cr_expect_eq(found.items[1].id, PG_EXPOSURE_RUNTIME_SOCKET);
	expect(CONTAINER "710 700 254:0 /etc /e rw - ext4 /dev/vda rw\n", PG_EXPOSURE_HOST_FILES,
	       "/etc");
	expect_nothing(CONTAINER "710 700 254:0 /etc /e ro - ext4 /dev/vda rw\n");
	expect_nothing(CONTAINER "710 700 254:0 /home/me /work rw - ext4 /dev/vda rw\n");
	expect(CONTAINER "710 700 0:29 / /sys/fs/bpf rw - bpf bpf rw\n", PG_EXPOSURE_BPF_FILES,
	       "/sys/fs/bpf");
	/* One of its own. */
	expect_nothing(CONTAINER "710 700 0:99 / /bpf rw - bpf bpf rw\n");
}

Test(mounts, cgroups)
{
	expect(CONTAINER "710 700 0:28 / /cg rw - cgroup2 cgroup2 rw\n",
	       PG_EXPOSURE_CGROUP_WRITABLE, "/cg");
	expect(CONTAINER "710 700 0:28 /box /cg rw - cgroup2 cgroup2 rw\n",
	       PG_EXPOSURE_CGROUP_WRITABLE, "/box");
	expect_nothing(CONTAINER "710 700 0:28 /box/c1 /cg rw - cgroup2 cgroup2 rw\n");
	expect_nothing(CONTAINER "710 700 0:28 /box/c1/in /cg rw - cgroup2 cgroup2 rw\n");
	expect_nothing(CONTAINER "710 700 0:28 /bo /cg rw - cgroup2 cgroup2 rw\n");
	expect_nothing(CONTAINER "710 700 0:28 / /cg ro - cgroup2 cgroup2 rw\n");
	/* Version 1: by the path of the process there. */
	expect_as(CONTAINER "710 700 0:33 / /cg rw - cgroup cgroup rw,memory\n",
		  "4:memory:/box/c1\n0::/box/c1\n", true, PG_EXPOSURE_CGROUP_WRITABLE, "/cg");
	expect_nothing(CONTAINER "710 700 0:33 /box/c1 /cg rw - cgroup cgroup rw,memory\n");
}

Test(mounts, kernel_settings)
{
	static const char uncovered[] = "701 700 0:61 / /proc rw - proc proc rw\n";
	pg_autoexposures struct pg_exposure_list found = {0};

	expect(uncovered, PG_EXPOSURE_PROC_WRITABLE, "/proc");
	expect(CONTAINER "710 700 0:21 / /host/proc rw - proc proc rw\n", PG_EXPOSURE_PROC_WRITABLE,
	       "/host/proc");
	expect(CONTAINER "710 700 0:61 /sys/kernel /k rw - proc proc rw\n",
	       PG_EXPOSURE_PROC_WRITABLE, "/k");
	expect_nothing(CONTAINER "710 700 0:21 / /host/proc ro - proc proc rw\n");
	/* Not the host's root. */
	look(uncovered, NULL, false, &found);
	cr_expect_eq(found.count, 0);
}

Test(mounts, of_one_kind_only_some_are_told)
{
	pg_autoexposures struct pg_exposure_list found = {0};
	char text[8192] = "";

	for (int i = 0; i < 100; i++) {
		char line[80];

		snprintf(line, sizeof(line), "7 6 0:25 /%d.sock /%d rw - tmpfs tmpfs rw\n", i, i);
		strcat(text, line);
	}
	look(text, NULL, true, &found);
	cr_expect_eq(found.count, PG_EXPOSURE_TEXTS_MAX);
}

Test(mounts, sources)
{
	pg_autoexposures struct pg_exposure_list found = {0};
	pg_autohostplaces struct pg_host_places host = {0};
	struct pg_inspection inspection = {.name = "the container c1",
					   .places = &host,
					   .found = &found};

	cr_assert_eq(pg_host_places_find(HOST, places, PG_ARRAY_SIZE(places), &host), 0);
	pg_inspect_source(&inspection, "/home/me", false);
	pg_inspect_source(&inspection, "/etc", true);
	cr_expect_eq(found.count, 0);
	pg_inspect_source(&inspection, "/etc", false);
	cr_assert_eq(found.count, 1);
	cr_expect_eq(found.items[0].id, PG_EXPOSURE_HOST_FILES);
	pg_inspect_source(&inspection, "/run", true);
	cr_assert_eq(found.count, 2);
	cr_expect_eq(found.items[1].id, PG_EXPOSURE_RUNTIME_SOCKET);
	pg_exposures_clear(&found);
	pg_inspect_source(&inspection, "/user/podman/podman.sock", true);
	cr_assert_eq(found.count, 1);
	cr_expect_eq(found.items[0].id, PG_EXPOSURE_RUNTIME_SOCKET);
}
