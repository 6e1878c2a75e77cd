#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What docs/openapi.yaml promises and no other test holds the agent to."""

import json
import os
import socket
import subprocess
import sys
import textwrap

import cgroups
from agentcase import AgentTest
from daemon import directory_of
from fakeruntime import FakeRuntime
from harness import main
from lab import A4, CLIENT4, D4
from phasegate import NO_NETWORK, PROBE, PUBLIC, allowlist
from recorder import PORT

ASK = textwrap.dedent("""
    import socket, struct, sys
    for name in sys.argv[1:]:
        labels = b"".join(bytes([len(one)]) + one for one in name.encode().split(b"."))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.settimeout(20)
            client.connect(("127.0.0.53", 53))
            client.send(b"ab\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0" + labels + b"\\0\\0\\x01\\0\\x01")
            print(client.recv(4096)[3] & 15)
""")


def now(daemon):
    return daemon.call("GET", "/v1/events?cursor=now").body[-1]["cursor"]


class Silent(AgentTest):
    """Nameservers and runtimes that say nothing, or what they should not."""

    @classmethod
    def setUpClass(cls):
        cls.runtime = FakeRuntime()
        cls.nameserver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        cls.addClassCleanup(cls.nameserver.close)
        cls.nameserver.bind(("127.0.0.1", 0))
        cls.SETTINGS = {"docker_socket": cls.runtime.path, "podman_socket": "/no/such",
                        "containerd_state": "/no/such",
                        "resolvers": ["127.0.0.1:%d" % cls.nameserver.getsockname()[1]]}
        super().setUpClass()
        cls.addClassCleanup(cls.runtime.close)

    def ask(self, made, *names):
        """Codes of the replies."""
        process = self.start_in(directory_of(made), *self.lab.client.command(
            sys.executable, "-I", "-c", ASK, *names), stdout=subprocess.PIPE)
        output, _ = process.communicate(timeout=60)
        return [int(line) for line in output.split()]

    def denials(self, made, cursor, count):
        found = []
        while len(found) < count:
            lines = self.daemon.call("GET", f"/v1/events?cursor={cursor}&follow=1"
                                     f"&environment={made['name']}").body
            self.assertGreater(len(lines), 1, found)
            cursor = lines[-1]["cursor"]
            found += [line for line in lines if line["event"] == "denied"]
        return found

    def test_names_that_are_denied(self):
        """Nobody connects to what has no address: an event tells of the name."""
        made = self.create({"network_policy": allowlist("ok.example")})
        cursor = now(self.daemon)
        self.assertEqual(self.ask(made, "evil.example", "x.ok.example", "EVIL.example"), [3, 3, 3])
        events = self.denials(made, cursor, 3)
        self.assertEqual([(e["reason"], e["host"], e["phase"], e["generation"]) for e in events],
                         [("name-not-allowed", name, "setup", 1)
                          for name in ("evil.example", "x.ok.example", "evil.example")])
        quiet = self.create({"network_policy": allowlist("ok.example")}, report_denials=False)
        cursor = now(self.daemon)
        self.assertEqual(self.ask(quiet, "evil.example"), [3])
        lines = self.daemon.call("GET", f"/v1/events?cursor={cursor}"
                                 f"&environment={quiet['name']}").body
        # Of the host's link, which nothing guards, it may tell.
        self.assertNotIn("denied", [e["event"] for e in lines])

    def test_names_come_with_an_update(self):
        made = self.create({"network_policy": NO_NETWORK})
        reply = self.daemon.call("PUT", f"/v1/environments/{made['name']}/policy",
                                 {"policy": {"network_policy": allowlist("ok.example")}})
        self.assertEqual((reply.status, reply["generation"]), (200, 2), reply)
        self.assertEqual(self.ask(made, "evil.example"), [3])

    def test_too_many_names(self):
        """A part is reported, the rest counted; nothing gets lost."""
        made = self.create({"network_policy": allowlist("ok.example")})
        cursor = now(self.daemon)
        names = [f"n{i}.evil.example" for i in range(400)]
        self.assertEqual(self.ask(made, *names), [3] * len(names))
        shown = self.daemon.show(made["name"])["dns"]
        self.assertEqual(shown["denied"], len(names))
        reported = len(names) - shown["unreported"]
        self.assertEqual([e["host"] for e in self.denials(made, cursor, reported)][:50],
                         names[:50])

    def test_container_without_a_cgroup_of_its_own(self):
        # As with --cgroupns=host --cgroup-parent=/, where there is none.
        with open("/proc/1/cgroup", encoding="ascii") as file:
            if "0::/\n" not in file.read():
                self.skipTest("process 1 is not in the root cgroup")
        self.runtime.add_container("rootless", 1)
        reply = self.daemon.create(self.name(), policy={}, members=[{"container": "rootless"}])
        self.assertCode(reply, "container_unsupported", "no cgroup of its own")
        self.assertEqual(reply["object"], "/members/0")

    def test_container_that_has_ended(self):
        self.runtime.add_container("gone", 4194304)
        reply = self.daemon.create(self.name(), policy={}, members=[{"container": "gone"}])
        self.assertCode(reply, "container_not_running")

    def test_runtime_that_talks_nonsense(self):
        for answer in ((200, []), (200, {}), (200, {"Id": 3}), (500, {}), (204, {})):
            self.runtime.answers["/containers/odd/json"] = answer
            reply = self.daemon.create(self.name(), policy={}, members=[{"container": "odd"}])
            self.assertCode(reply, "runtime_unavailable")

    def test_container_that_was_started_anew(self):
        """The same request is not answered with an Environment that confines nobody any more."""
        cgroup = self.make_cgroup("c")
        directory = cgroups.path_of(cgroup)
        first = self.start_in(directory, "sleep", "1000")
        self.wait_in(directory, first.pid)
        self.runtime.add_container("task", first.pid)
        name = self.name()
        body = {"policy": {"network_policy": NO_NETWORK}, "members": [{"container": "task"}]}
        self.assertEqual(self.daemon.create(name, **body).status, 201)
        self.assertEqual(self.daemon.create(name, **body).status, 200)
        first.kill()
        first.wait()
        cgroups.remove(directory, "cgroup2")
        directory = cgroups.path_of(self.make_cgroup("c"))
        second = self.start_in(directory, "sleep", "1000")
        self.wait_in(directory, second.pid)
        self.runtime.add_container("task", second.pid)
        reply = self.daemon.create(name, **body)
        if reply.status == 200:
            # The agent has noticed, and confines the new one.
            self.assertEqual(reply["members"][0]["id"], os.stat(directory).st_ino)
            return
        self.assertCode(reply, "environment_exists", "is gone")
        self.assertEqual(self.daemon.destroy(name, "refuse").status, 200)
        made = self.daemon.create(name, **body)
        self.assertEqual((made.status, directory_of(made.body)), (201, directory))


class NoResolver(AgentTest):
    def test_names_without_anybody_to_ask(self):
        script = "mount --bind /dev/null /etc/resolv.conf && exec \"$@\""
        # The same lab, an agent that sees an empty file.
        self.daemon.stop()
        command = self.lab.client.command
        self.lab.client.command = lambda *words: command(
            "unshare", "--mount", "sh", "-c", script, "sh", *words)
        try:
            self.daemon.start()
        finally:
            self.lab.client.command = command
        reply = self.daemon.create(self.name(), policy={"network_policy": allowlist("a.example")})
        self.assertCode(reply, "no_resolver")
        capabilities = self.daemon.call("GET", "/v1/capabilities")
        self.assertEqual((capabilities["hostnames"], capabilities["wildcards"]), (False, False))
        made = self.create({"network_policy": allowlist(A4)})
        reply = self.daemon.call("PUT", f"/v1/environments/{made['name']}/policy",
                                 {"policy": {"network_policy": allowlist("a.example")}})
        self.assertCode(reply, "no_resolver")
        self.assertEqual(self.daemon.show(made["name"])["generation"], 1)


class Counters(AgentTest):
    def test_what_is_not_reported_is_counted(self):
        made = self.create({"network_policy": NO_NETWORK})
        script = ("import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                  "for _ in range(20000):\n try: s.sendto(b'x', ('%s', 9))\n"
                  " except PermissionError: pass" % D4)
        process = self.start_in(directory_of(made), *self.lab.client.command(
            sys.executable, "-I", "-c", script))
        self.assertEqual(process.wait(), 0)
        counters = self.daemon.show(made["name"])["counters"]
        self.assertGreaterEqual(counters["sendmsgs"]["denied"], 20000)
        self.assertGreater(counters["events_suppressed"] + counters["events_lost"], 0)


class Operator(AgentTest):
    """What the host's settings close, no policy opens; and the next agent's settings count."""

    SETTINGS = {"never_allow": [D4], "host_ports": [PORT]}

    def errno(self, made, address, port):
        process = self.start_in(directory_of(made), *self.lab.client.command(
            PROBE, "socket 1 tcp4", f"connect 1 {address} {port}"), stdout=subprocess.PIPE)
        output, _ = process.communicate()
        return json.loads(output.splitlines()[-1])["errno"]

    def reasons(self, made, cursor):
        lines = self.daemon.call("GET", f"/v1/events?cursor={cursor}&follow=1"
                                 f"&environment={made['name']}").body
        return {line["reason"] for line in lines if line["event"] == "denied"}

    def test_never_allow(self):
        made = self.create({"network_policy": PUBLIC, "run_network_policy": allowlist(D4, A4)})
        for phase in ("setup", "run"):
            self.daemon.phase(made["name"], phase)
            cursor = now(self.daemon)
            self.assertEqual(self.errno(made, A4, PORT), "")
            self.assertEqual(self.errno(made, D4, PORT), "EPERM")
            self.assertEqual(self.reasons(made, cursor), {"operator"})

    def serve(self, port):
        """A service of the host's, which is not the Environment's."""
        server = self.lab.client.call(lambda: socket.create_server((CLIENT4, port)))
        self.addCleanup(server.close)

    def test_host_ports(self):
        self.serve(PORT)
        self.serve(PORT + 1)
        made = self.create({"network_policy": PUBLIC, "run_network_policy": allowlist(CLIENT4)})
        self.assertEqual([w["code"] for w in made["warnings"]], ["opens_host"])
        self.assertEqual([self.errno(made, CLIENT4, PORT + i) for i in (0, 1)], ["", ""])
        self.daemon.phase(made["name"], "run")
        cursor = now(self.daemon)
        self.assertEqual([self.errno(made, CLIENT4, PORT + i) for i in (0, 1)], ["", "EPERM"])
        self.assertEqual(self.reasons(made, cursor), {"operator"})

    def test_host_ports_at_an_address_of_two_interfaces(self):
        """It is the host's as long as one of them has it."""
        address, other = "192.0.2.77/32", "192.0.2.78/32"
        self.lab.client.ip(f"addr add {address} dev eth0", f"addr add {address} dev lo",
                           f"addr add {other} dev lo", f"addr del {address} dev lo",
                           f"addr del {other} dev lo")
        self.addCleanup(self.lab.client.ip, f"addr del {address} dev eth0")
        server = self.lab.client.call(lambda: socket.create_server((address[:-3], PORT + 1)))
        self.addCleanup(server.close)
        made = self.create({"run_network_policy": allowlist("192.0.2.0/24")}, phase="run")
        self.assertEqual(self.errno(made, address[:-3], PORT + 1), "EPERM")

    def listen(self, family, address, port):
        """Datagrams to the host, whatever address they are for."""
        server = self.lab.client.call(lambda: socket.socket(family, socket.SOCK_DGRAM))
        self.addCleanup(server.close)
        if family == socket.AF_INET6:
            server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        server.bind((address, port))
        server.settimeout(10)
        return server

    def test_host_ports_at_other_addresses(self):
        """Loopback, broadcast and multicast lead to the host as well."""
        v4 = ("127.0.0.2", "192.0.2.255", "192.0.2.0", "255.255.255.255", "224.0.0.1")
        v6 = ("ff02::1", "ff01::1")
        servers = {family: [self.listen(family, any_address, PORT + i) for i in (0, 1)]
                   for family, any_address in ((socket.AF_INET, "0.0.0.0"),
                                               (socket.AF_INET6, "::"))}
        made = self.create({"run_network_policy": allowlist("0.0.0.0/0", "::/0")}, phase="run")
        code = ("import socket, sys\n"
                "for word in sys.argv[2:]:\n"
                "    family = socket.AF_INET6 if ':' in word else socket.AF_INET\n"
                "    made = socket.socket(family, socket.SOCK_DGRAM)\n"
                "    made.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)\n"
                "    more = (0, socket.if_nametoindex('eth0')) if ':' in word else ()\n"
                "    for port in (int(sys.argv[1]) + 1, int(sys.argv[1])):\n"
                "        try:\n"
                "            made.sendto(word.encode(), (word, port, *more))\n"
                "            print('', end=',')\n"
                "        except OSError as error:\n"
                "            print(error.errno, end=',')\n")
        process = self.start_in(directory_of(made), *self.lab.client.command(
            sys.executable, "-I", "-c", code, str(PORT), *v4, *v6), stdout=subprocess.PIPE)
        output, _ = process.communicate(timeout=60)
        self.assertEqual(output.decode(), "1,," * len(v4 + v6))
        for family, sent in ((socket.AF_INET, v4), (socket.AF_INET6, v6)):
            opened, closed = servers[family]
            # 192.0.2.0 is received before Linux 5.14 only.
            for address in set(sent) - {"192.0.2.0"}:
                self.assertIn(opened.recv(100).decode(), sent, address)
            closed.setblocking(False)
            self.assertRaises(BlockingIOError, closed.recv, 100)


if __name__ == "__main__":
    main()
