/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "inspect/parts.h"

static int kind_of(const char *name)
{
	enum pg_exposure_id id;

	return pg_device_kind(name, &id) ? (int)id : -1;
}

Test(devices, kinds)
{
	cr_expect_eq(kind_of("net/tun"), PG_EXPOSURE_DEVICE_TUN);
	cr_expect_eq(kind_of("tap0"), PG_EXPOSURE_DEVICE_TUN);
	cr_expect_eq(kind_of("vhost-net"), PG_EXPOSURE_DEVICE_VHOST);
	cr_expect_eq(kind_of("vhost-vsock"), PG_EXPOSURE_DEVICE_VHOST);
	cr_expect_eq(kind_of("kvm"), PG_EXPOSURE_DEVICE_KVM);
	cr_expect_eq(kind_of("infiniband/uverbs0"), PG_EXPOSURE_DEVICE_INFINIBAND);
	cr_expect_eq(kind_of("vfio/12"), PG_EXPOSURE_DEVICE_VFIO);
	cr_expect_eq(kind_of("mem"), PG_EXPOSURE_DEVICE_HOST);
	for (size_t i = 0; i < 8; i++)
		cr_expect_eq(kind_of((const char *[]){"null", "zero", "full", "random", "urandom",
						      "tty", "ptmx", "fuse"}[i]),
			     -1);
}

Test(devices, given_by_a_runtime)
{
	pg_autoexposures struct pg_exposure_list found = {0};
	struct pg_inspection inspection = {.name = "the container c1", .found = &found};

	pg_inspect_device(&inspection, "/dev/fuse");
	pg_inspect_device(&inspection, "/devices/kvm");
	pg_inspect_device(&inspection, NULL);
	cr_expect_eq(found.count, 0);
	pg_inspect_device(&inspection, "/dev/kvm");
	pg_inspect_device(&inspection, "/dev/kvm");
	cr_assert_eq(found.count, 1);
	cr_expect_str_eq(found.items[0].text, "the container c1 was given /dev/kvm");
}

Test(devices, lists_of_version_1)
{
	static const char list[] = "c 1:3 rwm\nb *:* m\nc *:* m\nc 136:* rw\nc 10:200 rwm\n";

	cr_expect(pg_devices_allow(list, false, 1, 3));
	cr_expect(pg_devices_allow(list, false, 136, 7));
	cr_expect(pg_devices_allow(list, false, 10, 200));
	/* Nodes may be made of them, and not opened. */
	cr_expect_not(pg_devices_allow(list, false, 10, 232));
	cr_expect_not(pg_devices_allow(list, true, 254, 0));
	cr_expect_not(pg_devices_allow(list, true, 1, 3));
	cr_expect(pg_devices_allow("a *:* rwm\n", true, 254, 0));
	cr_expect_not(pg_devices_allow("", false, 1, 3));
	cr_expect_not(pg_devices_allow("c 1:\nx\n\nc", false, 1, 3));
}
