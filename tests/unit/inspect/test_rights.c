/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <string.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include <phasegate/abi/exec.h>

#include "inspect/parts.h"

/* Docker's default. */
#define DOCKER 0xa80425fbULL

static size_t count_of(uint64_t capabilities, bool own_user, struct pg_exposure_list *found)
{
	struct pg_inspection inspection = {.name = "the container c1", .found = found};
	const struct pg_process process = {.proc_fd = -1,
					   .capabilities = capabilities,
					   .own_user = own_user};

	pg_inspect_rights(&inspection, &process);
	return found->count;
}

static void expect(uint64_t capabilities, bool own_user, enum pg_exposure_id id)
{
	pg_autoexposures struct pg_exposure_list found = {0};

	cr_assert_eq(count_of(capabilities, own_user, &found), 1);
	cr_expect_eq(found.items[0].id, id, "%s", found.items[0].text);
}

Test(rights, capabilities)
{
	pg_autoexposures struct pg_exposure_list none = {0}, two = {0}, foreign = {0};

	cr_expect_eq(count_of(DOCKER, true, &none), 0);
	expect(DOCKER | 1ULL << CAP_SYS_ADMIN, true, PG_EXPOSURE_CAP_SYS_ADMIN);
	expect(DOCKER | 1ULL << CAP_SYS_MODULE, true, PG_EXPOSURE_CAP_SYS_MODULE);
	expect(DOCKER | 1ULL << CAP_SYS_RAWIO, true, PG_EXPOSURE_CAP_SYS_RAWIO);
	expect(DOCKER | 1ULL << CAP_DAC_READ_SEARCH, true, PG_EXPOSURE_CAP_DAC_READ_SEARCH);
	expect(DOCKER | 1ULL << 39, true, PG_EXPOSURE_CAP_BPF);
	expect(DOCKER | 1ULL << CAP_NET_ADMIN, true, PG_EXPOSURE_CAP_NET_ADMIN);
	expect(UINT64_MAX, true, PG_EXPOSURE_PRIVILEGED);
	cr_expect_eq(count_of(1ULL << CAP_SYS_ADMIN | 1ULL << CAP_SYS_RAWIO, true, &two), 2);
	/* What it may do in a user namespace of its own is nobody else's. */
	cr_expect_eq(count_of(UINT64_MAX, false, &foreign), 0);
}

/* What is refused of a member is found of a program that is executed in it, and the other way. */
Test(rights, executed)
{
	uint64_t all = 0;

	for (size_t i = 0; i < PG_EXPOSURE_COUNT; i++) {
		const enum pg_exposure_id id = (enum pg_exposure_id)i;
		const uint64_t rights = pg_inspect_rights_of(id);

		cr_expect_eq(all & rights, 0, "%s", pg_exposure_name(id));
		all |= rights;
		for (uint64_t bit = 1; bit; bit <<= 1) {
			pg_autoexposures struct pg_exposure_list found = {0};
			struct pg_inspection inspection = {.name = "it", .found = &found};

			if (!(rights & bit))
				continue;
			pg_inspect_executed(&inspection, bit);
			cr_assert_eq(found.count, 1);
			cr_expect_eq(found.items[0].id, id, "%s", found.items[0].text);
		}
	}
	cr_expect_eq(pg_inspect_rights_of(PG_EXPOSURE_CAP_NET_ADMIN), 1ULL << CAP_NET_ADMIN);
	cr_expect_eq(all >> 61, 7);
}

Test(rights, of_the_host)
{
	const uint64_t raw = 1ULL << CAP_NET_RAW, admin = 1ULL << CAP_NET_ADMIN;
	const uint64_t trace = 1ULL << CAP_SYS_PTRACE, all = UINT64_MAX;

	cr_expect_eq(pg_exec_rights(raw | admin, false, false), raw | admin);
	cr_expect_eq(pg_exec_rights(admin, true, false), PG_EXEC_HOST_NETWORK);
	cr_expect_eq(pg_exec_rights(raw, true, true), raw | PG_EXEC_HOST_NETWORK);
	cr_expect_eq(pg_exec_rights(trace, true, true), trace | PG_EXEC_HOST_PIDS);
	cr_expect_eq(pg_exec_rights(all, false, false), PG_EXEC_PRIVILEGED);
	cr_expect_eq(pg_exec_rights(all, true, true),
		     PG_EXEC_PRIVILEGED | PG_EXEC_HOST_NETWORK | PG_EXEC_HOST_PIDS);
}

Test(rights, runtimes)
{
	static const char *const sandboxed[] = {"runsc", "io.containerd.kata.v2", "kata-fc",
						"containerd-shim-runsc-v1", "krun"};
	static const char *const plain[] = {"runc", "crun", "io.containerd.runc.v2", "oci",
					    "containerd-shim-runc-v2"};

	for (size_t i = 0; i < PG_ARRAY_SIZE(sandboxed); i++) {
		pg_autoexposures struct pg_exposure_list found = {0};
		struct pg_inspection inspection = {.name = "it", .found = &found};

		pg_inspect_runtime(&inspection, sandboxed[i]);
		cr_assert_eq(found.count, 1, "%s", sandboxed[i]);
		cr_expect_eq(found.items[0].id, PG_EXPOSURE_SANDBOX_RUNTIME);
	}
	for (size_t i = 0; i < PG_ARRAY_SIZE(plain); i++) {
		pg_autoexposures struct pg_exposure_list found = {0};
		struct pg_inspection inspection = {.name = "it", .found = &found};

		pg_inspect_runtime(&inspection, plain[i]);
		pg_inspect_runtime(&inspection, NULL);
		cr_expect_eq(found.count, 0, "%s", plain[i]);
	}
}

Test(rights, status)
{
	static const char status[] = "Name:\tSeccomp: 9\nUid:\t0\t7\nSeccomp:\t2\nCapBnd:\t00ff\n";
	uint64_t number = 1;

	cr_assert(pg_status_number(status, "Seccomp", 10, &number));
	cr_expect_eq(number, 2);
	cr_assert(pg_status_number(status, "CapBnd", 16, &number));
	cr_expect_eq(number, 0xff);
	cr_expect_not(pg_status_number(status, "Cap", 16, &number));
	cr_expect_not(pg_status_number("", "Cap", 16, &number));
	cr_expect_not(pg_status_number("Cap:", "Cap", 16, &number));
}

Test(rights, names_and_levels)
{
	for (size_t i = 0; i < PG_EXPOSURE_COUNT; i++) {
		enum pg_exposure_id id;

		cr_assert_eq(pg_exposure_parse(pg_exposure_name((enum pg_exposure_id)i), &id), 0);
		cr_expect_eq((size_t)id, i);
		cr_expect(strlen(pg_exposure_next_step(id)) > 0);
	}
	for (int i = PG_EXPOSURE_REFUSE; i <= PG_EXPOSURE_LIST; i++) {
		enum pg_exposure_level level;

		cr_assert_eq(pg_exposure_level_parse(pg_exposure_level_name(
							     (enum pg_exposure_level)i),
						     &level),
			     0);
		cr_expect_eq((int)level, i);
	}
	cr_expect_eq(pg_exposure_parse("", &(enum pg_exposure_id){0}), -EINVAL);
}

/* This process is the host's own: it is looked at, and nothing is found but that it is root. */
Test(rights, this_process)
{
	pg_autoexposures struct pg_exposure_list found = {0};
	pg_autohostplaces struct pg_host_places places = {0};
	struct pg_inspection inspection = {.name = "the cgroup /x",
					   .cgroup = "/x",
					   .places = &places,
					   .found = &found};

	pg_inspect_process(&inspection, getpid());
	pg_inspect_process(&inspection, 0x7ffffff0); /* nobody's */
	for (size_t i = 0; i < found.count; i++)
		cr_expect_eq(found.items[i].id, PG_EXPOSURE_HOST_PROCESS, "%s",
			     found.items[i].text);
	cr_expect_not(inspection.contained);
}
