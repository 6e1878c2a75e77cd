/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "agent/config.h"

static int parse(struct pg_config *config, const char *text, struct pg_error *err)
{
	cr_assert_eq(pg_config_init(config, err), 0);
	return pg_config_parse(config, "test.conf", text, strlen(text), err);
}

Test(config, defaults)
{
	pg_autoconfig struct pg_config config = {0};
	struct pg_error err = {};

	cr_assert_eq(parse(&config, "{}", &err), 0);
	cr_expect_str_eq(config.socket, PG_AGENT_SOCKET);
	cr_expect_eq(config.log_level, PG_LOG_INFO);
	cr_expect(!config.has_group && !config.host_ports_given);
	cr_expect_eq(config.never_allow_count + config.resolver_count, 0);
}

Test(config, everything)
{
	pg_autoconfig struct pg_config config = {0};
	struct pg_error err = {};
	char text[PG_ADDR_TEXT];

	cr_assert_eq(parse(&config,
			   "{\"socket\":\"/a/b\",\"pins\":\"/c\",\"group\":\"root\","
			   "\"log_level\":\"debug\",\"never_allow\":[\"169.254.169.254\","
			   "\"10.0.0.0/8\",\"fd00::/8\"],\"host_ports\":[443,65535],"
			   "\"resolvers\":[\"192.0.2.1\",\"[2001:db8::1]:5353\"],"
			   "\"clients_per_user\":1,\"environments_per_user\":4095,"
			   "\"entries_per_user\":0}",
			   &err),
		     0, "%s", err.text);
	cr_expect_str_eq(config.socket, "/a/b");
	cr_expect_eq(config.group, 0);
	cr_expect(config.has_group);
	cr_expect_eq(config.log_level, PG_LOG_DEBUG);
	cr_assert_eq(config.never_allow_count, 3);
	cr_expect_str_eq(pg_prefix_format(&config.never_allow[1], text), "10.0.0.0/8");
	cr_assert_eq(config.host_port_count, 2);
	cr_expect_eq(config.host_ports[1], 65535);
	cr_assert_eq(config.resolver_count, 2);
	cr_expect_str_eq(pg_endpoint_format(&config.resolvers[1], text), "[2001:db8::1]:5353");
	cr_expect_eq(config.clients_per_user, 1);
	cr_expect_eq(config.environments_per_user, 4095);
	cr_expect_eq(config.entries_per_user, 0);
}

Test(config, no_ports_is_not_all_ports)
{
	pg_autoconfig struct pg_config config = {0};
	struct pg_error err = {};

	cr_assert_eq(parse(&config, "{\"host_ports\":[]}", &err), 0);
	cr_expect(config.host_ports_given);
	cr_expect_eq(config.host_port_count, 0);
}

static const char *const faults[][2] = {
	{"[]", "an object is needed"},
	{"{\"soket\":\"/x\"}", "write \"socket\""},
	{"{\"socket\":\"x\"}", "/socket: an absolute path"},
	{"{\"pins\":\"\"}", "/pins: an absolute path"},
	{"{\"cgroup_parent\":\"a/b\"}", "/cgroup_parent"},
	{"{\"group\":\"no such group\"}", "/group: there is no group no such group: make it"},
	{"{\"log_level\":\"loud\"}", "/log_level"},
	{"{\"never_allow\":\"10.0.0.1\"}", "/never_allow: an array"},
	{"{\"never_allow\":[\"10.0.0.1\",\"10.0.0.1/8\"]}", "/never_allow/1: the address has bits"},
	{"{\"never_allow\":[\"10.0.0.1/33\"]}", "/never_allow/0: an address or"},
	{"{\"never_allow\":[\"10.0.0.1/\"]}", "/never_allow/0: an address or"},
	{"{\"never_allow\":[\"example.com\"]}", "/never_allow/0: an address or"},
	{"{\"never_allow\":[1]}", "/never_allow/0: an address or"},
	{"{\"host_ports\":[65536]}", "/host_ports/0: a port"},
	{"{\"host_ports\":[1,1.5]}", "/host_ports/1: a port"},
	{"{\"clients_per_user\":0}", "/clients_per_user: at least 1"},
	{"{\"clients_per_user\":257}", "/clients_per_user"},
	{"{\"environments_per_user\":0}", "/environments_per_user: at least 1"},
	{"{\"environments_per_user\":4096}", "/environments_per_user"},
	{"{\"entries_per_user\":-1}", "/entries_per_user"},
	{"{\"resolvers\":[\"dns.example\"]}", "/resolvers/0: an address"},
	{"{\"resolvers\":[\"1.1.1.1\",\"1.1.1.1\",\"1.1.1.1\",\"1.1.1.1\"]}", "at most 3"},
};

Test(config, faults)
{
	for (size_t i = 0; i < PG_ARRAY_SIZE(faults); i++) {
		pg_autoconfig struct pg_config config = {0};
		struct pg_error err = {};

		cr_expect_eq(parse(&config, faults[i][0], &err), -EINVAL, "%s", faults[i][0]);
		cr_expect_eq(strncmp(err.text, "test.conf: ", 11), 0, "%s", err.text);
		cr_expect(strstr(err.text, faults[i][1]), "%s: %s", faults[i][0], err.text);
	}
}

Test(config, a_missing_file)
{
	pg_autoconfig struct pg_config config = {0};
	struct pg_error err = {};

	cr_assert_eq(pg_config_init(&config, &err), 0);
	cr_expect_eq(pg_config_read(&config, "/no/such/file", false, &err), 0);
	cr_expect_eq(pg_config_read(&config, "/no/such/file", true, &err), -ENOENT);
}
