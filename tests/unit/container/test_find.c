/* SPDX-License-Identifier: Apache-2.0 */
/* Containers of Docker and Podman, of a server that says what theirs say. */
#include "fake_runtime.h"

#include <errno.h>

#define ID    "15fb80145dbd1132db5b130678db3790516573d6e414675eebfc2552060c7613"
#define OWNER "ed7e777887ac1767443e50638fa99eff3b62d258ca2b098d8b8dd2a54abb88d4"

static const char web[] =
	"{\"Id\":\"" ID "\",\"Name\":\"/web\",\"State\":{\"Running\":true,\"Pid\":4242,"
	"\"StartedAt\":\"2024-02-29T12:00:01.5Z\"},\"ResolvConfPath\":\"/d/resolv.conf\","
	"\"HostsPath\":\"/d/hosts\",\"Mounts\":[{\"Source\":\"/run\",\"RW\":true},"
	"{\"Source\":\"/etc\",\"RW\":false},{\"Source\":\"volume\"},{}],"
	"\"HostConfig\":{\"NetworkMode\":\"front\","
	"\"Runtime\":\"runsc\",\"Devices\":[{\"PathOnHost\":\"/dev/kvm\"},{},7],"
	"\"Privileged\":true,\"Dns\":[\"192.0.2.53\",\"nonsense\"],"
	"\"ExtraHosts\":[\"a.test:192.0.2.1\",\"b.test=fd00::1\",\"c.test:host-gateway\","
	"\"bad name:192.0.2.1\",\"d.test\",\":192.0.2.1\",\"e.test:1.2.3\"]},\"Config\":{\"Env\":"
	"[\"PATH=/bin\",\"http_proxy=http://me:secret@proxy.example:3128/\",\"HTTP_PROXY=twice\","
	"\"ALL_PROXY=\",\"HTTPS_PROXY=10.0.0.1:8080\"],\"Labels\":{"
	"\"com.docker.compose.project\":\"shop\",\"com.docker.compose.service\":\"web\"}},"
	"\"NetworkSettings\":{\"Networks\":{\"front\":{\"IPAddress\":\"172.18.0.2\","
	"\"Gateway\":\"172.18.0.1\",\"GlobalIPv6Address\":\"\",\"IPv6Gateway\":\"\"},"
	"\"back\":{\"IPAddress\":\"172.19.0.2\",\"Gateway\":\"\","
	"\"GlobalIPv6Address\":\"fd00::2\",\"IPv6Gateway\":\"fd00::1\"}}}}";

static const char minimal[] =
	"{\"Id\":\"" ID "\",\"State\":{\"Running\":true,\"Pid\":1},"
	"\"HostConfig\":{\"NetworkMode\":\"default\"},\"Config\":{\"Env\":null,\"Labels\":null}}";

static const struct fake_rule rules[] = {
	{.path = "/containers/web/json", .body = web},
	{.path = "/containers/minimal/json", .body = minimal},
	{.path = "/networks/back", .body = "{\"Internal\":true}"},
	{.path = "/networks/front", .body = "{\"Internal\":false}"},
	{.path = "/containers/stopped/json",
	 .body = "{\"Id\":\"x\",\"Name\":\"/stopped\",\"State\":{\"Running\":false,\"Pid\":0}}"},
	{.path = "/containers/json",
	 .body = "[{\"Id\":\"" ID "\",\"Names\":[\"/web\"],\"Labels\":{"
		 "\"io.podman.compose.project\":\"shop\"},\"HostConfig\":{\"NetworkMode\":"
		 "\"container:" OWNER "\"}},{\"Names\":[]},{\"Id\":\"" OWNER "\"}]"},
	{.path = NULL},
};

Test(find, everything_that_a_runtime_says)
{
	struct fake_runtime fake;
	pg_autocontainer struct pg_container container = {0};
	struct pg_runtimes runtimes;
	struct pg_error err = {};
	char text[PG_ADDR_TEXT];

	fake_start(&fake, rules);
	runtimes = fake_runtimes(&fake, 5000);
	cr_assert(eq(int, pg_container_find_any(&runtimes, "web", &container, &err), 0), "%s",
		  err.text);
	fake_stop(&fake);
	cr_assert_str_eq(container.id, ID);
	cr_assert_str_eq(container.name, "web");
	cr_assert(eq(int, container.pid, 4242));
	cr_assert(container.privileged);
	cr_assert_str_eq(container.executor, "runsc");
	cr_assert(eq(sz, container.device_count, 1));
	cr_assert_str_eq(container.devices[0], "/dev/kvm");
	cr_assert(eq(sz, container.mount_count, 2));
	cr_assert_str_eq(container.mounts[0].source, "/run");
	cr_assert(not(container.mounts[0].read_only));
	cr_assert(container.mounts[1].read_only);
	cr_assert_str_eq(container.network_mode, "front");
	cr_assert_str_eq(container.resolv_conf, "/d/resolv.conf");
	cr_assert_str_eq(container.hosts, "/d/hosts");
	cr_assert(eq(u64, container.started, 1709208001500000000ULL));
	cr_assert_str_eq(container.project, "shop");
	cr_assert_str_eq(container.service, "web");
	cr_assert(eq(sz, container.dns_count, 1));
	cr_assert(eq(sz, container.extra_host_count, 3));
	cr_assert_str_eq(container.extra_hosts[0].name, "a.test");
	cr_assert_str_eq(pg_addr_format(&container.extra_hosts[0].addr, text), "192.0.2.1");
	cr_assert_str_eq(container.extra_hosts[1].name, "b.test");
	cr_assert_str_eq(pg_addr_format(&container.extra_hosts[1].addr, text), "fd00::1");
	cr_assert(container.extra_hosts[2].gateway);
	cr_assert(eq(sz, container.network_count, 2));
	cr_assert(container.networks[0].ip4 && !container.networks[0].ip6);
	cr_assert(not(container.networks[0].internal));
	cr_assert(container.networks[1].ip4 && container.networks[1].ip6);
	cr_assert(container.networks[1].internal);
	cr_assert(eq(sz, container.networks[0].addr_count, 1));
	cr_assert_str_eq(pg_addr_format(&container.networks[0].addrs[0], text), "172.18.0.2");
	cr_assert(eq(sz, container.networks[1].addr_count, 2));
	cr_assert_str_eq(pg_addr_format(&container.networks[1].addrs[1], text), "fd00::2");
	cr_assert(eq(sz, container.networks[1].gateway_count, 1));
	cr_assert_str_eq(pg_addr_format(&container.networks[1].gateways[0], text), "fd00::1");
	cr_assert(eq(sz, container.proxy_count, 2));
	cr_assert_str_eq(container.proxies[0].variable, "HTTP_PROXY");
	cr_assert_str_eq(container.proxies[0].value, "http://proxy.example:3128/");
	cr_assert_str_eq(container.proxies[1].value, "10.0.0.1:8080");
}

Test(find, little_that_a_runtime_says)
{
	struct fake_runtime fake;
	pg_autocontainer struct pg_container container = {0};
	struct pg_runtimes runtimes;
	struct pg_error err = {};

	fake_start(&fake, rules);
	runtimes = fake_runtimes(&fake, 5000);
	cr_assert(eq(int,
		     pg_container_find(&runtimes, PG_RUNTIME_DOCKER, "minimal", &container, &err),
		     0),
		  "%s", err.text);
	fake_stop(&fake);
	cr_assert_str_eq(container.name, ID);
	cr_assert_str_eq(container.network_mode, "bridge");
	cr_assert(eq(u64, container.started, 0));
	cr_assert_null(container.project);
}

static void expect(const struct pg_runtimes *runtimes, const char *name, int error)
{
	pg_autocontainer struct pg_container container = {0};
	struct pg_error err = {};

	cr_expect(eq(int, pg_container_find_any(runtimes, name, &container, &err), error), "%s: %s",
		  name, err.text);
	cr_expect(err.text[0] != '\0');
	cr_expect_null(container.id);
}

Test(find, none_to_be_had)
{
	struct fake_runtime fake;
	struct pg_runtimes runtimes;

	fake_start(&fake, rules);
	runtimes = fake_runtimes(&fake, 5000);
	expect(&runtimes, "other", -ENOENT);
	expect(&runtimes, "stopped", -ESRCH);
	expect(&runtimes, "", -EINVAL);
	expect(&runtimes, "..", -EINVAL);
	expect(&runtimes, "web/../../v2", -EINVAL);
	expect(&runtimes, "web?x", -EINVAL);
	expect(&runtimes, "a\r\nb", -EINVAL);
	fake_stop(&fake);
	expect(&runtimes, "web", -ENOTCONN);
}

Test(find, the_same_name_in_two_runtimes)
{
	static const struct fake_rule others[] = {
		{.path = "/containers/web/json",
		 .body = "{\"Id\":\"" OWNER "\",\"State\":{\"Running\":true,\"Pid\":7}}"},
		{.path = NULL},
	};
	struct fake_runtime docker, podman;
	struct pg_runtimes runtimes;

	fake_start(&docker, rules);
	fake_start(&podman, others);
	runtimes = fake_runtimes(&docker, 5000);
	runtimes.paths[PG_RUNTIME_PODMAN] = podman.socket;
	expect(&runtimes, "web", -ENOTUNIQ);
	fake_stop(&docker);
	fake_stop(&podman);
}

Test(find, answers_that_are_none)
{
	static const struct fake_rule bad[] = {
		{.path = "/containers/noise/json", .noise = true},
		{.path = "/containers/text/json", .body = "<html>"},
		{.path = "/containers/list/json", .body = "[]"},
		{.path = "/containers/huge/json", .body = "{}", .blanks = 3UL * 1024 * 1024},
		{.path = "/containers/fails/json", .body = "{}", .status = 500},
		{.path = "/containers/pid/json",
		 .body = "{\"Id\":\"a\",\"State\":{\"Running\":true,\"Pid\":-1}}"},
		{.path = "/containers/empty/json", .body = ""},
		{.path = NULL},
	};
	struct fake_runtime fake;
	struct pg_runtimes runtimes;

	fake_start(&fake, bad);
	runtimes = fake_runtimes(&fake, 10000);
	expect(&runtimes, "noise", -EPROTO);
	expect(&runtimes, "text", -EPROTO);
	expect(&runtimes, "list", -EPROTO);
	expect(&runtimes, "huge", -EFBIG);
	expect(&runtimes, "fails", -EPROTO);
	expect(&runtimes, "pid", -EPROTO);
	expect(&runtimes, "empty", -EPROTO);
	fake_stop(&fake);
}

Test(find, one_that_does_not_answer)
{
	static const struct fake_rule silent[] = {
		{.path = "/containers/web/json", .silent = true},
		{.path = NULL},
	};
	const uint64_t began = pg_monotonic_ns();
	struct fake_runtime fake;
	struct pg_runtimes runtimes;

	fake_start(&fake, silent);
	runtimes = fake_runtimes(&fake, 200);
	expect(&runtimes, "web", -ETIMEDOUT);
	cr_assert(pg_monotonic_ns() - began < 5 * PG_NSEC_PER_SEC);
	expect(&runtimes, "web", -ETIMEDOUT);
	fake_stop(&fake);
}

Test(list, neighbours)
{
	struct fake_runtime fake;
	pg_autoneighbours struct pg_neighbours neighbours = {0};
	struct pg_runtimes runtimes;
	struct pg_error err = {};

	fake_start(&fake, rules);
	runtimes = fake_runtimes(&fake, 5000);
	cr_assert(eq(int, pg_container_list(&runtimes, PG_RUNTIME_DOCKER, &neighbours, &err), 0),
		  "%s", err.text);
	fake_stop(&fake);
	cr_assert(eq(sz, neighbours.count, 2));
	cr_assert_str_eq(neighbours.items[0].name, "web");
	cr_assert_str_eq(neighbours.items[0].project, "shop");
	cr_assert_str_eq(pg_network_owner(neighbours.items[0].network_mode), OWNER);
	cr_assert_str_eq(neighbours.items[1].name, OWNER);
	cr_assert_null(pg_network_owner("bridge"));
	cr_assert_null(pg_network_owner(NULL));
}
