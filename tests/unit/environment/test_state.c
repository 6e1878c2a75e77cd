/* SPDX-License-Identifier: Apache-2.0 */
#include "environment/state.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "environment/record.h"

static char directory[] = "/tmp/phasegate-state-XXXXXX";
static int record_fd;

static void set_up(void)
{
	cr_assert(mkdtemp(directory));
	record_fd = open(directory, O_RDONLY | O_DIRECTORY);
	cr_assert(record_fd >= 0);
}

static void tear_down(void)
{
	unlinkat(record_fd, PG_STATE_FILE, 0);
	pg_saved_policy_remove(record_fd, 1);
	rmdir(directory);
	close(record_fd);
}

TestSuite(state, .init = set_up, .fini = tear_down);

static struct pg_endpoint endpoint(const char *text)
{
	struct pg_endpoint parsed;

	cr_assert_eq(pg_endpoint_parse(text, 0, &parsed), 0);
	return parsed;
}

static struct pg_saved example(void)
{
	static struct pg_fixed_host host = {.name = (char *)"db"};
	struct pg_saved saved = {
		.intent = PG_INTENT_RELEASE,
		.pins = (char *)"/sys/fs/bpf/phasegate",
		.state = 17,
		.flags = 0x85,
		.members = {UINT64_MAX, 2},
		.member_count = 2,
		.listener = {endpoint("127.77.1.2:61000"), endpoint("[::1]:61000")},
		.settings =
			{
				.apart = true,
				.report_denials = true,
				.dns = PG_DNS_SETTINGS_DEFAULT,
				.resolvers = {endpoint("192.0.2.53:53")},
				.resolver_count = 1,
				.hosts = &host,
				.host_count = 1,
				.owner = 1000,
				.refused_rights = 1ULL << 63 | 1,
				.note = (char *)"a \"note\" \xc3\xa4\n{}",
			},
	};

	cr_assert_eq(pg_addr_parse("2001:db8::1", &host.addr), 0);
	saved.banks[1] = (struct pg_saved_bank){
		.there = true,
		.compiled = {1, 1, 2},
		.slots = {{.set = 3, .learned = 4, .mode = 2, .tables = 5, .flags = 1}},
		.set_ids = {UINT32_MAX, 0, 7},
		.learned_ids = {8, 9, 0},
	};
	return saved;
}

Test(state, reads_what_it_wrote)
{
	const struct pg_saved saved = example();
	pg_autosaved struct pg_saved found = {};
	struct pg_error err = {};

	cr_assert_eq(pg_saved_write(record_fd, &saved, &err), 0, "%s", err.text);
	cr_assert_eq(pg_saved_read(record_fd, "test", &found, &err), 0, "%s", err.text);
	cr_expect_eq(found.intent, saved.intent);
	cr_expect_str_eq(found.pins, saved.pins);
	cr_expect_eq(found.state, saved.state);
	cr_expect_eq(found.flags, saved.flags);
	cr_expect_eq(found.member_count, 2);
	cr_expect_eq(memcmp(found.members, saved.members, sizeof(saved.members)), 0);
	cr_expect_eq(memcmp(found.listener, saved.listener, sizeof(saved.listener)), 0);
	cr_expect_not(found.banks[0].there);
	cr_expect_eq(memcmp(&found.banks[1].slots, &saved.banks[1].slots,
			    sizeof(saved.banks[1].slots)),
		     0);
	cr_expect_eq(memcmp(&found.banks[1].compiled, &saved.banks[1].compiled,
			    sizeof(saved.banks[1].compiled)),
		     0);
	cr_expect_eq(memcmp(&found.banks[1].set_ids, &saved.banks[1].set_ids,
			    sizeof(saved.banks[1].set_ids)),
		     0);
	cr_expect_eq(memcmp(&found.banks[1].learned_ids, &saved.banks[1].learned_ids,
			    sizeof(saved.banks[1].learned_ids)),
		     0);
	cr_expect(found.settings.apart && found.settings.report_denials);
	cr_expect_eq(found.settings.dns.grace_s, PG_LEARNED_GRACE_S);
	cr_expect_eq(found.settings.resolver_count, 1);
	cr_expect_eq(found.settings.own_resolver_count, 0);
	cr_expect_eq(found.settings.host_count, 1);
	cr_expect_str_eq(found.settings.hosts[0].name, "db");
	cr_expect_eq(pg_addr_compare(&found.settings.hosts[0].addr, &saved.settings.hosts[0].addr),
		     0);
	cr_expect_eq(found.settings.owner, 1000);
	cr_expect_eq(found.settings.refused_rights, 1ULL << 63 | 1);
	cr_expect_str_eq(found.settings.note, saved.settings.note);
}

/* Whatever is cut off or changed: an error, and no other than that. */
Test(state, refuses_what_is_damaged)
{
	const struct pg_saved saved = example();
	char text[8192];
	ssize_t size;
	int fd;

	cr_assert_eq(pg_saved_write(record_fd, &saved, NULL), 0);
	fd = openat(record_fd, PG_STATE_FILE, O_RDWR);
	size = read(fd, text, sizeof(text));
	cr_assert(size > 0 && size < (ssize_t)sizeof(text));
	for (ssize_t cut = 0; cut < size; cut++) {
		pg_autosaved struct pg_saved found = {};

		cr_assert_eq(ftruncate(fd, 0), 0);
		cr_assert_eq(pwrite(fd, text, (size_t)cut, 0), cut);
		cr_expect_eq(pg_saved_read(record_fd, "test", &found, NULL), -EPROTO, "%zd", cut);
	}
	for (ssize_t at = 0; at < size; at++) {
		pg_autosaved struct pg_saved found = {};
		const char was = text[at];
		int error;

		text[at] = was == '9' ? '8' : '9';
		cr_assert_eq(pwrite(fd, text, (size_t)size, 0), size);
		error = pg_saved_read(record_fd, "test", &found, NULL);
		cr_expect(error == 0 || error == -EPROTO, "%zd: %d", at, error);
		text[at] = was;
	}
	close(fd);
}

Test(state, refuses_what_no_environment_has)
{
	struct pg_saved wrong[3] = {example(), example(), example()};

	wrong[0].state = 0;
	wrong[1].member_count = 0;
	wrong[2].settings.dns.denial = PG_DENIAL_REFUSED + 1;
	for (size_t i = 0; i < 3; i++) {
		pg_autosaved struct pg_saved found = {};

		cr_assert_eq(pg_saved_write(record_fd, &wrong[i], NULL), 0);
		cr_expect_eq(pg_saved_read(record_fd, "test", &found, NULL), -EPROTO, "%zu", i);
	}
}

Test(state, keeps_a_policy)
{
	static const char document[] =
		"{\"run_network_policy\":{\"network_mode\":\"allowlist\",\"allowed_hosts\":"
		"[\"*.example.com\",\"192.0.2.0/24\"]}}";
	const struct pg_policy_source source = {"test", document, sizeof(document) - 1};
	pg_autodiagnostics struct pg_diagnostics diagnostics = {};
	pg_autopolicy struct pg_policy *policy = NULL, *found = NULL;
	struct pg_error err = {};

	cr_assert_eq(pg_policy_parse(&source, 1, NULL, 0, PG_POLICY_BARE, &policy, &diagnostics),
		     0);
	cr_assert_eq(pg_saved_policy_write(record_fd, 1, policy, &err), 0, "%s", err.text);
	cr_assert_eq(pg_saved_policy_read(record_fd, 1, &found, &err), 0, "%s", err.text);
	cr_expect_eq(found->phases[PG_PHASE_SETUP].mode, PG_MODE_PUBLIC);
	cr_expect_eq(found->phases[PG_PHASE_RUN].entries->count, 2);
	cr_expect_eq(found->phases[PG_PHASE_VERIFIER].mode, PG_MODE_PUBLIC);
	cr_expect_eq(pg_saved_policy_read(record_fd, 0, &found, &err), -ENOENT);
}
