# SPDX-License-Identifier: Apache-2.0
"""Whatever nameserver an application asks, in whatever namespace, and by whatever socket calls:
Phasegate answers, and the application sees the nameserver that it asked."""

import os

from dnslab import DNSCLIENT, NOBODY4, NOBODY6, PYTHON, DnsTest, with_resolv_conf
from dnsserver import cname
from harness import main, token
from lab import A4, A6, CLIENT4, CLIENT6, D4, R4, Namespace, mapped
from phasegate import allowlist, policy
from recorder import DNS_PORT

NAME, SECRET = "allowed.example.com", "secret.example.net"
POLICY = policy(run=allowlist(NAME))
# Without a route, in the resolver's own namespace, Docker's, systemd-resolved's, none at all.
NO_ROUTE4, NO_ROUTE6 = "100.64.9.9", "2001:db8:9999::9"
NEAR4 = "10.99.0.7"
SERVERS = (NO_ROUTE4, NO_ROUTE6, R4, "127.0.0.11", "127.0.0.53", "127.0.0.1", "::1", NOBODY4,
           NOBODY6, CLIENT4, D4)


# As container runtimes leave it: lo is up.
NEW_NAMESPACE = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "-")

NO_IPV6 = ("unshare", "--net", "sh", "-c", "sysctl -qw net.ipv6.conf.all.disable_ipv6=1 && "
           'ip link set lo up && exec "$@"', "-")


class Nameservers(DnsTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.lab.client.ip("route add unreachable 100.64.0.0/10",
                          "route add unreachable 2001:db8:9999::/48")

    def setUp(self):
        super().setUp()
        self.server.host(NAME, A4, A6)
        self.server.host(SECRET, D4)

    def works(self, inside, *servers):
        """For glibc with this resolv.conf, allowed and denied."""
        self.resolv_conf(*(f"nameserver {server}" for server in servers))
        mark = token("name")
        found = inside("visit", NAME, mark)
        self.assertEqual(found["addresses"], sorted([A4, A6]), found)
        self.assertEqual({one.get("data") for one in found["connects"].values()}, {mark}, found)
        self.server.queries()
        self.capture.drain()
        self.assertEqual(inside("lookup", SECRET)["error"], "EAI_NONAME")
        self.assert_nothing_left()

    def test_resolv_conf(self):
        inside = self.client(POLICY)
        for server in SERVERS:
            with self.subTest(server=server):
                self.works(inside, server)
        self.works(inside, NO_ROUTE4, NOBODY6, "127.0.0.11")
        self.resolv_conf()
        self.works(inside)

    def test_source_and_peer(self):
        """recvfrom and getpeername show what was asked; UDP with and without connect, TCP."""
        inside = self.client(POLICY)
        for server in (*SERVERS, mapped(NOBODY4), mapped("127.0.0.11")):
            for way in ({}, {"connected": True}, {"tcp": True}):
                with self.subTest(server=server, way=way):
                    self.assert_resolves(inside, NAME, A4, A6, server=server, **way)
                    self.server.queries()
                    self.capture.drain()
                    self.assert_denied_name(inside, SECRET, server=server, **way)
                    self.assert_nothing_left()

    def test_several_queries_in_flight_on_one_socket(self):
        inside = self.client(policy(run=allowlist(NAME, "*.many.example.com")))
        names = [f"n{i}.many.example.com" for i in range(20)]
        self.server.fresh("many.example.com")
        for servers in ([NOBODY4], [NOBODY6], [NOBODY4, "127.0.0.11", NO_ROUTE4],
                        [mapped(NOBODY4), NOBODY6, "::1"]):
            with self.subTest(servers=servers):
                replies = inside("ask_many", servers, [*names, SECRET])
                self.assertEqual(len({reply["id"] for reply in replies}), 21 * len(servers))
                for reply in replies:
                    self.assertIn(reply["from"], [[server, DNS_PORT] for server in servers])
                    wanted = [] if reply["name"] == SECRET else \
                        [f"198.18.0.{reply['name'].split('.')[0][1:]}"]
                    self.assertEqual(reply["addresses"], wanted, reply)
        self.assertNotIn(SECRET, self.server.names())

    def test_pipelined_queries_on_one_connection(self):
        inside = self.client(POLICY)
        for server in (NOBODY4, NOBODY6):
            replies = inside("ask_pipelined", server, [NAME, SECRET, NAME] * 10)
            self.assertEqual([reply["rcode"] for reply in replies],
                             ["NOERROR", "NXDOMAIN", "NOERROR"] * 10)
        self.assertNotIn(SECRET, self.server.names())

    def test_sendmsg_to_another_address_than_the_connected_one(self):
        inside = self.client(POLICY)
        for connected_to, server in ((NOBODY4, "127.0.0.11"), (NOBODY6, "::1"),
                                     (mapped(NOBODY4), mapped(R4))):
            for name, rcode in ((NAME, "NOERROR"), (SECRET, "NXDOMAIN")):
                self.capture.drain()
                reply = inside("ask_another", connected_to, server, name)
                self.assertEqual((reply.get("rcode"), reply.get("peer")),
                                 (rcode, [connected_to, DNS_PORT]), reply)
                self.assertIn(reply["from"], ([connected_to, DNS_PORT], [server, DNS_PORT]))
        self.assertNotIn(SECRET, self.server.names())

    def test_a_socket_that_asked_is_a_socket_like_others(self):
        """Connected to something else afterwards, it shows that."""
        text = policy(run=allowlist(A4, A6, NAME))
        with self.agent("--policy", text, "--resolver", R4) as agent:
            agent("socket 0 udp4")
            agent(f"connect 0 {NOBODY4} 53")
            agent(f"query 0 {NAME}")
            self.assertEqual(agent("recv 0")["errno"], "")
            mark = token("other")
            # As glibc does it that sorts addresses: the source is chosen anew.
            for line in ("connect 0 unspec 0", f"connect 0 {A4} 7000", f"send 0 {mark}"):
                self.assertEqual(agent(line)["errno"], "")
            self.assertEqual(agent("recv 0")["data"], mark)

    def test_from_a_socket_bound_to_an_address(self):
        """Of loopback; any other could be of another namespace, and the answer leave."""
        with self.agent("--policy", POLICY, "--resolver", R4) as agent:
            for kind, own, server, error in (
                    ("udp4", "127.0.0.1", NOBODY4, ""), ("udp6", "::1", NOBODY6, ""),
                    ("udp4", CLIENT4, NOBODY4, "EPERM"), ("udp6", CLIENT6, NOBODY6, "EPERM")):
                with self.subTest(own=own, server=server):
                    agent(f"socket 0 {kind}")
                    self.assertEqual(agent(f"bind 0 {own} 0")["errno"], "")
                    agent(f"connect 0 {server} 53")
                    self.assertEqual(agent(f"query 0 {NAME}")["errno"], error)
                    if not error:
                        self.assertEqual(agent("recv 0")["errno"], "")
                    agent("close 0")


class Namespaces(DnsTest):
    """Network namespaces that the command makes itself, as container runtimes do."""

    def setUp(self):
        super().setUp()
        self.server.host(NAME, A4, A6)
        self.server.host(SECRET, D4)

    def namespace_of(self, inside):
        path = f"/proc/{inside('pid')}/ns/net"
        namespace = Namespace(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        self.addCleanup(namespace.close)
        return namespace

    def join(self, namespace, number):
        """A second way to the server, which begins in the namespace."""
        own, other = f"10.99.{number}.2", f"10.99.{number}.1"
        namespace.ip(f"link add eth0 type veth peer name in{number} netns {self.lab.server.path}",
                     f"addr add {own}/24 dev eth0", "link set eth0 up")
        self.lab.server.ip(f"addr add {other}/24 dev in{number}", f"link set in{number} up")
        namespace.ip(f"route add default via {other}")

    def test_a_new_namespace(self):
        """The first question finds no listener there: by UDP it is kept, by TCP tried again."""
        for number, (server, way) in enumerate(((NOBODY4, {}), (NOBODY4, {"tcp": True}),
                                                (NOBODY4, {"connected": True}), (NOBODY6, {}),
                                                ("127.0.0.11", {}), ("::1", {"tcp": True}))):
            with self.subTest(server=server, way=way):
                inside = self.client(POLICY, before=NEW_NAMESPACE)
                if number % 2:
                    self.assert_denied_name(inside, SECRET, server=server, **way)
                self.assert_resolves(inside, NAME, A4, server=server, **way)
                self.assert_denied_name(inside, SECRET, server=server, **way)
                self.join(self.namespace_of(inside), number)
                self.assert_connects(inside, A4)
                self.assert_refused(inside, D4)
                self.assertNotIn(SECRET, self.server.names())
                inside.finish()

    def test_a_new_namespace_with_lo_down(self):
        """Nothing can be sent to loopback there. Phasegate sees the attempt and sets it up, so the
        question fails at once, and the next one has an answer."""
        for server, way in ((NOBODY4, {}), (NOBODY4, {"tcp": True}), (NOBODY6, {})):
            with self.subTest(server=server, way=way):
                inside = self.client(POLICY, before=("unshare", "--net"))
                first = inside("ask", server, NAME, **way)
                self.assertIn(first["errno"], ("", "ENETUNREACH", "EADDRNOTAVAIL"))
                self.wait_for(lambda i=inside, s=server, w=way: i(
                    "ask", s, NAME, limit=1, **w).get("addresses") == [A4], 2)
                self.assert_denied_name(inside, SECRET, server=server, **way)

    def test_applications_of_a_new_namespace(self):
        inside = self.client(POLICY, before=NEW_NAMESPACE)
        self.join(self.namespace_of(inside), 9)
        for server in ("127.0.0.11", NOBODY4):
            self.resolv_conf(f"nameserver {server}")
            mark = token("inner")
            found = inside("visit", NAME, mark)
            self.assertEqual(found["connects"][A4]["data"], mark, found)
            self.assertEqual(inside("lookup", SECRET)["error"], "EAI_NONAME")
        self.assertNotIn(SECRET, self.server.names())

    def test_without_ipv6(self):
        """In the namespace of the query, and in that of Phasegate itself."""
        hosts = self.file("hosts", f"{A4} {NAME}\n")
        for more in ({"before": NO_IPV6}, {"through": NO_IPV6}):
            with self.subTest(more=more):
                inside = self.client(POLICY, "--hosts", hosts, **more)
                for way in ({}, {"tcp": True}):
                    self.assert_resolves(inside, NAME, A4, **way)
                    self.assert_denied_name(inside, SECRET, **way)

    def test_many_namespaces_of_one_environment(self):
        """One after the other, each asked in at once; and the first one still works."""
        inside = self.client(POLICY)
        for number in range(20):
            name = NAME if number % 2 else SECRET
            result = inside("run", *NEW_NAMESPACE, PYTHON, DNSCLIENT,
                            f'["ask", ["{NOBODY4}", "{name}"], {{}}]')
            self.assertEqual(result["status"], 0, result)
            self.assertIn("NOERROR" if number % 2 else "NXDOMAIN", result["output"])
        self.assert_resolves(inside, NAME, A4, A6)
        self.assertNotIn(SECRET, self.server.names())


class TheEnvironmentsOwn(DnsTest):
    """--resolver environment: those of /etc/resolv.conf, asked from inside."""

    def start(self, document, *options, servers=("127.0.0.11",), **more):
        """`phasegate run` itself sees this resolv.conf at its start."""
        conf = self.file("own.conf", "".join(f"nameserver {server}\n" for server in servers))
        return self.client(document, *options, resolver=None, through=with_resolv_conf(conf),
                           **more)

    def test_asked_from_inside(self):
        docker = self.nameserver(("127.0.0.11",))
        docker.host(NAME, A4, A6)
        docker.host("db", A4)
        docker.host(SECRET, D4)
        inside = self.start(policy(run=allowlist(NAME, "db")), "--resolver", "environment")
        docker.queries()
        self.assert_resolves(inside, NAME, A4, A6)
        self.assert_resolves(inside, "db", A4)
        self.assert_connects(inside, A4, A6)
        docker.queries()
        for server in (NOBODY4, "127.0.0.11"):
            self.assert_denied_name(inside, SECRET, server=server)
        self.assertEqual(docker.names(), [])
        self.assert_nothing_left()
        self.assertEqual(len(inside.warnings("environment_resolver")), 1)

    def test_names_of_one_label(self):
        """They are the container network's own, whoever is asked for the others."""
        docker = self.nameserver(("127.0.0.11",))
        docker.host("db", A4)
        self.server.host("db", D4)
        self.server.host(NAME, A6)
        own = self.file("own.conf", "nameserver 127.0.0.11\n")
        inside = self.client(policy(run=allowlist(NAME, "db")), "--resolv-conf", own)
        self.assert_resolves(inside, "db", A4)
        self.assert_resolves(inside, NAME, A6)
        self.assertEqual(set(docker.names()), {"db"})
        self.assertNotIn("db", self.server.names())
        self.assert_refused(inside, D4)
        self.assertEqual(len(inside.warnings("environment_resolver")), 1)

    def test_names_of_one_label_without_being_told(self):
        """Who can listen on an address of /etc/resolv.conf inside must not answer for it."""
        inner = self.nameserver(("127.0.0.11",))
        inner.host("db", D4)
        self.server.host("db", A4)
        inside = self.start(policy(run=allowlist("db")), "--resolver", R4)
        self.assert_resolves(inside, "db", A4)
        self.assertEqual(inner.names(), [])
        self.assert_refused(inside, D4)
        self.assertEqual(inside.warnings("environment_resolver"), [])

    def test_server_inside_that_leads_elsewhere(self):
        """As Docker's does that asks others from inside, where processes can answer for them: of
        one in a container's namespace only what is on the networks there is believed."""
        own = self.file("own.conf", "nameserver 127.0.0.11\n")
        inside = self.client(policy(run=allowlist("near", "far", "alias", "host", "all")),
                             "--resolv-conf", own, before=NEW_NAMESPACE)
        path = f"/proc/{inside('pid')}/ns/net"
        namespace = Namespace(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        self.addCleanup(namespace.close)
        namespace.ip("link add eth0 type veth peer name other", "addr add 10.99.0.2/24 dev eth0",
                     "link set eth0 up", "link set other up", "route add default via 10.99.0.1")
        docker = self.nameserver(("127.0.0.11",), namespace=namespace)
        docker.host("near", NEAR4)
        docker.host("far", D4)
        docker.records("alias", cname("alias", "secret.far.example"))
        # The host is on the network, too.
        self.lab.client.ip("addr add 10.99.0.1/32 dev lo")
        self.addCleanup(self.lab.client.ip, "addr del 10.99.0.1/32 dev lo")
        docker.host("host", "10.99.0.1")
        docker.host("all", "10.99.0.255")
        for name in ("far", "alias", "host", "all"):
            self.assertEqual(inside("ask", NOBODY4, name)["rcode"], "SERVFAIL")
            self.assertIn(name, docker.names())
        self.assertEqual(inside("ask", NOBODY4, "secret.far.example")["rcode"], "NXDOMAIN")
        self.assertEqual(self.server.names(), [])
        self.assert_refused(inside, D4)
        self.assert_resolves(inside, "near", NEAR4)

    def test_in_the_namespace_of_the_query(self):
        inside = self.start(policy(run=allowlist(NAME)), "--resolver", "environment",
                            before=NEW_NAMESPACE)
        path = f"/proc/{inside('pid')}/ns/net"
        namespace = Namespace(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        self.addCleanup(namespace.close)
        docker = self.nameserver(("127.0.0.11",), namespace=namespace)
        docker.host(NAME, A4)
        self.assert_resolves(inside, NAME, A4)
        self.assertIn(NAME, docker.names())
        self.assert_denied_name(inside, SECRET)
        self.assertEqual(docker.names(), [])


if __name__ == "__main__":
    main()
