# SPDX-License-Identifier: Apache-2.0
"""Environments with several members, members that are running already, processes that survive a
phase, and the ways in which an Environment ends."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import unittest

import cgroups
import steps
from harness import main
from keeper import PARENT, PINS, isolate
from lab import A4, A6, B4, CLIENT4, D4
from phasegate import NO_NETWORK, PROBE, PUBLIC, Agent, Run, allowlist, policy
from test_adopt import WWW, AdoptTest

OWN = "192.0.2.77"
LATE = 7200
TEXT = policy(setup=allowlist(A4), run=allowlist(B4), verifier=NO_NETWORK)


# Sends to D from one socket that is not connected; prints whether it may, when that changes.
FLOOD = """
import socket, sys, time
before = None
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
    while True:
        try:
            sender.sendto(b"flood", (sys.argv[1], 7))
            now = "sent"
        except PermissionError:
            now = "EPERM"
        if now != before:
            print(now, time.monotonic(), flush=True)
        before = now
        time.sleep(0.001)
"""


def cgroup_of(pid):
    with open(f"/proc/{pid}/cgroup", encoding="ascii") as file:
        return next(line[3:].strip() for line in file if line.startswith("0::"))


class Members(AdoptTest):
    def members(self, *names):
        return [self.make_cgroup(name) for name in names]

    def client_in(self, cgroup):
        return self.inside({"member": cgroup})

    def test_one_write_switches_all(self):
        """At different depths; adopted, too."""
        outer, = self.members("outer")
        deep = outer + "/deep"
        os.mkdir(cgroups.path_of(deep))
        other, = self.members("other")
        keeper = self.keeper()
        self.create(keeper, deep, other, text=TEXT)
        clients = [self.client_in(deep), self.client_in(other)]
        for client in clients:
            self.assertEqual(self.reachable(client), {A4})
        keeper("switch", "run")
        for client in clients:
            self.assertEqual(self.reachable(client), {B4})
        keeper.kill()
        keeper = self.keeper()
        self.assertEqual(keeper("adopt", self.name)["generation"], 2)
        self.assertEqual(keeper("update", policy(run=PUBLIC))["generation"], 3)
        for client in clients:
            self.assertEqual(self.reachable(client), {A4, B4, D4})
        keeper("switch", "verifier")
        keeper("update", TEXT)
        for client in clients:
            self.assertEqual(self.reachable(client), set())

    def loopback(self, options, name):
        one, two = self.members(name + "-one", name + "-two")
        keeper = self.keeper()
        self.create(keeper, one, two, text=policy(setup=NO_NETWORK), options=options)
        server, client = self.client_in(one), self.client_in(two)
        port = server("listen", "server")["port"]
        found = client("open_stream", "stream", "127.0.0.1", port=port)["errno"]
        keeper("destroy", "kill")
        self.assertEqual(keeper.finish()[0], 0)
        return found

    def test_loopback_between_members(self):
        self.assertEqual(self.loopback("-", "together"), "")
        self.assertNotEqual(self.loopback("p", "apart"), "")

    def test_attach_to_what_is_running(self):
        """Connections that the phase does not allow are closed, the others go on."""
        cgroup, = self.members("running")
        client = self.client_in(cgroup)
        self.assertEqual(self.reachable(client), {A4, B4, D4})
        for name, address in (("a", A4), ("d", D4)):
            self.assertEqual(client("open_stream", name, address)["errno"], "")
        keeper = self.keeper()
        self.assertEqual(keeper.refused("create", self.name, TEXT, "setup", "-", cgroup), "EBUSY")
        self.create(keeper, cgroup, text=TEXT, options="a")
        self.assertEqual(self.reachable(client), {A4})
        self.assertEqual(client("send", "a", "goes-on-")["errno"], "")
        self.assertIsNotNone(self.recorder.wait("goes-on-"))
        self.assertNotEqual(client("send", "d", "closed-")["errno"], "")
        keeper("destroy", "release")
        self.assertEqual(self.reachable(client), {A4, B4, D4})
        # Confined anew it does not begin with the old header.
        self.create(keeper, cgroup, text=policy(setup=NO_NETWORK), options="a")
        self.assertEqual(self.reachable(client), set())
        keeper("destroy", "release")
        self.assertEqual(keeper.finish()[0], 0)
        self.assertIsNone(client.process.poll())

    def test_confined_anew_while_a_socket_sends(self):
        """What was let out a moment ago was by another Environment, whose generation this is."""
        cgroup, = self.members("running")
        keeper = self.keeper()
        self.create(keeper, cgroup, text=policy(setup=PUBLIC), options="a")
        sender = Run(self.lab, command=[
            "sh", "-c", 'echo $$ >"$0" && exec "$@"', f"{cgroups.path_of(cgroup)}/cgroup.procs",
            sys.executable, "-c", FLOOD, D4])
        self.addCleanup(sender.close)
        self.assertEqual(sender.line().split()[0], "sent")
        time.sleep(0.1)
        keeper("destroy", "release")
        self.create(keeper, cgroup, text=policy(setup=NO_NETWORK), options="a")
        created = time.monotonic()
        # That of the time between, when everything is denied, or the one when it was in force.
        while (line := sender.line().split())[0] != "EPERM":
            self.assertLess(float(line[1]), created)
        self.assertLess(float(line[1]), created + 0.1)
        time.sleep(0.5)
        sender.kill()
        self.assertEqual(sender.process.stdout.read(), b"")
        keeper("destroy", "release")

    def own_addresses(self):
        maps, = (name for name in os.listdir(PINS) if name.startswith("+maps-"))
        dump = subprocess.run(["bpftool", "-j", "map", "dump", "pinned", f"{PINS}/{maps}/pg_own"],
                              stdout=subprocess.PIPE, check=True).stdout
        return [bytes(int(octet, 16) for octet in one["key"]) for one in json.loads(dump)]

    def test_the_first_one(self):
        """Who comes to an empty cgroup from the host's namespace may send at once, also while the
        owner is busy; once somebody has come to another, the host's addresses are not its own."""
        cgroup, = self.members("empty")
        keeper = self.keeper()
        self.create(keeper, cgroup, text=TEXT, options="a")
        own = socket.inet_aton(CLIENT4)
        keeper.process.send_signal(signal.SIGSTOP)
        try:
            client = self.client_in(cgroup)
            self.assert_connects(client, A4)
            self.assertEqual(self.reachable(client), {A4})
            client.kill()
        finally:
            keeper.process.send_signal(signal.SIGCONT)
        self.assertTrue(any(own in key for key in self.own_addresses()))
        self.inside({"member": cgroup}, *self.in_namespace(OWN))
        self.wait_for(lambda: not any(own in key for key in self.own_addresses()),
                      about="the host's addresses stay its own")
        keeper("destroy", "release")

    def test_late_answer_to_an_earlier_one(self):
        """What was sent by UDP before it was confined is not known, also if the socket is another
        one by now; the answer does not open a way. Who comes to an empty cgroup has sent nothing.
        """
        cgroup, = self.members("running")
        keeper = self.keeper()
        far = self.lab.server.call(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self.addCleanup(far.close)
        far.settimeout(5)
        far.bind((D4, LATE))
        for earlier in (True, False):
            with self.subTest(earlier=earlier):
                if not earlier:
                    self.create(keeper, cgroup, text=policy(setup=NO_NETWORK), options="a")
                agent = Agent(self.lab, command=[
                    "sh", "-c", 'echo $$ >"$0" && exec "$@"',
                    f"{cgroups.path_of(cgroup)}/cgroup.procs", PROBE])
                self.addCleanup(agent.close)
                if earlier:
                    self.create(keeper, cgroup, text=policy(setup=PUBLIC), options="a")
                    agent("socket 0 udp4")
                    agent(f"bind 0 0.0.0.0 {LATE}")
                    self.assertEqual(agent(f"sendto 0 {D4} {LATE} question")["errno"], "")
                    self.assertEqual(far.recv(100), b"question")
                    agent("close 0")
                    keeper("destroy", "release")
                    self.create(keeper, cgroup, text=policy(setup=NO_NETWORK), options="a")
                agent("socket 1 udp4")
                agent(f"bind 1 0.0.0.0 {LATE}")
                far.sendto(b"answer", (CLIENT4, LATE))
                self.assertEqual(agent("recvfrom 1")["data"], "answer")
                self.assertEqual(agent("reply 1 secret")["errno"], "EPERM" if earlier else "")
                agent.kill()
                keeper("destroy", "release")

    def test_raw_sockets_that_are_there_already(self):
        """They do not pass for the kernel's, which discovers neighbours in every phase."""
        cgroup, = self.members("running")
        deep = cgroup + "/deep"
        os.mkdir(cgroups.path_of(deep))
        clients = [self.client_in(cgroup), self.client_in(deep)]
        for client in clients:
            client("open_raw6", "raw")
            sent = client("send_neighbour_solicitation", "raw", A6, "before")
            self.assertEqual(sent["errno"], "")
        self.create(self.keeper(), cgroup, text=policy(setup=NO_NETWORK), options="a")
        for client in clients:
            client("open_raw6", "later")
            for label in ("raw", "later"):
                sent = client("send_neighbour_solicitation", label, A6, "secret")
                self.assertEqual(sent["errno"], "EPERM", label)

    def test_what_listens_already(self):
        """In a namespace of its own, on loopback and on an address of its own; with this owner and
        the next."""
        cgroup, = self.members("container")
        client = self.inside({"member": cgroup}, *self.in_namespace(OWN))
        ports = {address: client("listen", address, address)["port"]
                 for address in (OWN, "127.0.0.1")}
        keeper = self.keeper()
        self.create(keeper, cgroup, text=policy(setup=NO_NETWORK), options="a")
        for number in range(2):
            for address, port in ports.items():
                self.assertEqual(client("open_stream", f"{address}-{number}", address,
                                        port=port)["errno"], "", address)
            self.assert_refused(client, D4)
            if not number:
                keeper.kill()
                keeper = self.keeper()
                keeper("adopt", self.name)

    @staticmethod
    def in_namespace(address):
        return ["unshare", "--net", "sh", "-c",
                "ip link set lo up &&"
                f" ip addr add {address}/32 dev lo && exec \"$@\"", "sh"]

    def test_refused(self):
        keeper = self.keeper()
        one, = self.members("one")
        os.mkdir(cgroups.path_of(one + "/below"))
        with open("/proc/self/cgroup", encoding="ascii") as file:
            own = next(line.strip()[3:] for line in file if line.startswith("0::"))
        for members, number in ((["/"], "EINVAL"), ([one, one + "/below"], "EINVAL"),
                                ([one + "/nothing"], "ENOENT"), (["/../x"], "EINVAL"),
                                ([f"/{PARENT}/a/b"], "EINVAL")):
            with self.subTest(members=members):
                self.assertEqual(keeper.refused("create", self.name, TEXT, "setup", "a", *members),
                                 number)
        if own != "/":
            self.assertEqual(keeper.refused("create", self.name, TEXT, "setup", "a", own), "EBUSY")
        self.create(keeper, one + "/below", text=TEXT)
        self.assertEqual(keeper.refused("create", "another", TEXT, "setup", "a", one), "EBUSY")

    def test_destroy(self):
        keeper = self.keeper()
        inside = self.inside(self.create(keeper, text=TEXT))
        self.assertEqual(keeper.refused("destroy", "empty"), "EBUSY")
        # Below the parent nothing has a network without an Environment.
        self.assertEqual(keeper.refused("destroy", "release"), "EBUSY")
        self.assertEqual(self.reachable(inside), {A4})
        inside.finish()
        self.wait_for(lambda: not cgroups.processes(cgroups.path_of(keeper("state")["member"])))
        keeper("destroy", "empty")

    def test_names(self):
        """Names come with an update, and go."""
        keeper = self.keeper()
        inside = self.inside(self.create(keeper, text=TEXT))
        self.assertEqual(self.reachable(inside), {A4})
        keeper("update", policy(setup=allowlist(WWW)))
        self.assert_resolves(inside, WWW, A6)
        self.assert_connects(inside, A6)
        self.assert_denied_name(inside, "secret.example.net")
        keeper.kill()
        keeper = self.keeper()
        keeper("adopt", self.name)
        self.assert_resolves_again(inside)
        keeper("update", TEXT)
        self.assert_refused(inside, A6)
        self.assertEqual(self.reachable(inside), {A4})
        self.assert_nothing_left_of_dns(inside)

    def assert_nothing_left_of_dns(self, inside):
        self.server.queries()
        self.assertNotIn("addresses", inside("ask", D4, WWW, connected=True))
        self.assertEqual(self.server.names(), [])

    def test_names_in_every_member(self):
        """Whichever member asks, the answer comes to the Environment."""
        members = self.members("first", "second")
        keeper = self.keeper()
        self.create(keeper, *members, text=policy(setup=allowlist(WWW)))
        for cgroup in members:
            client = self.client_in(cgroup)
            self.assert_resolves(client, WWW, A6)
            self.assert_connects(client, A6)
            self.assert_denied_name(client, "secret.example.net")

    @unittest.skipUnless(steps.AVAILABLE, "built without PHASEGATE_TEST_HOOKS")
    def test_nothing_is_remembered(self):
        """Of one whose owner is killed when nothing but the kernel's tables knows of it."""
        members = self.members("first", "second")
        keeper = self.keeper(stop_at="end-removed")
        self.create(keeper, *members, text=TEXT)
        number = keeper("state")["id"]
        self.assertIn(number, self.remembered("pg_members"))
        self.client_in(members[0])
        self.wait_for(lambda: number in self.remembered("pg_own"), about="no address is own")
        self.assertTrue(self.stop(keeper, "destroy", "kill"))
        keeper.kill()
        keeper = self.keeper()
        self.create(keeper, text=TEXT)
        for table in ("pg_members", "pg_own", "pg_flow_bars"):
            self.assertNotIn(number, self.remembered(table), table)

    @staticmethod
    def remembered(table):
        """Ids of Environments in the table."""
        maps, = (name for name in os.listdir(PINS) if name.startswith("+maps-"))
        dump = json.loads(subprocess.run(
            ["bpftool", "--json", "map", "dump", "pinned", f"{PINS}/{maps}/{table}"],
            stdout=subprocess.PIPE, check=True).stdout)
        found = set()
        for element in dump:
            octets = [int(text, 16) for text in
                      element["value" if table == "pg_members" else "key"][:8]]
            found.add(int.from_bytes(bytes(octets), sys.byteorder))
        return found

    def test_a_policy_at_fault(self):
        """An update that fails leaves the old one in force, and nothing else."""
        keeper = self.keeper()
        inside = self.inside(self.create(keeper, text=TEXT))
        self.assertEqual(keeper.refused("update", '{"network_policy": "everything"}'), "EINVAL")
        self.assertEqual(keeper("state")["generation"], 1)
        self.assertEqual(self.reachable(inside), {A4})

    def test_denials(self):
        keeper = self.keeper()
        inside = self.inside(self.create(keeper, text=TEXT, options="e"))
        self.assert_refused(inside, D4)
        self.wait_for(lambda: keeper("denials")["denials"] > 0)


class Operator(AdoptTest):
    """What the host's operator says is above every policy."""

    def test_never_allow(self):
        """In public, too; and what another owner says holds from when it adopts."""
        keeper = self.keeper(operator=[D4])
        inside = self.inside(self.create(keeper, text=policy(setup=PUBLIC, run=allowlist(D4))))
        self.assertEqual(self.reachable(inside), {A4, B4})
        keeper("switch", "run")
        self.assertEqual(self.reachable(inside), set())
        keeper("switch", "setup")
        for operator, allowed in (([], {A4, B4, D4}), ([A4], {B4, D4}), ([D4], {A4, B4})):
            keeper.kill()
            before = self.reachable(inside)
            keeper = self.keeper(operator=operator)
            self.assertEqual(self.reachable(inside), before)
            keeper("adopt", self.name)
            self.assertEqual(self.reachable(inside), allowed)

    def test_connections_to_what_is_never_allowed_are_closed(self):
        keeper = self.keeper()
        inside = self.inside(self.create(keeper, text=policy(setup=PUBLIC)))
        self.assertEqual(inside("open_stream", "d", D4)["errno"], "")
        keeper.kill()
        keeper = self.keeper(operator=[D4])
        keeper("adopt", self.name)
        self.wait_for(lambda: inside("send", "d", "closed-")["errno"] == "ECONNABORTED")

    def test_never_allow_in_other_forms(self):
        """By which a translator or a tunnel would send to it; others are none of its business."""
        keeper = self.keeper(operator=[D4])
        inside = self.inside(self.create(keeper, text=policy(setup=PUBLIC)))
        for address, denied in ((D4, True), (B4, False)):
            low = "%02x%02x:%02x%02x" % tuple(map(int, address.split(".")))
            for form in (f"::ffff:{address}", f"64:ff9b::{low}", f"64:ff9b:1::{low}",
                         f"2002:{low}::1", f"::ffff:0:{low}"):
                found = inside("attempt", form)[form]
                self.assertEqual(found == "EPERM", denied, (form, found))
        for family in ("127.0.0.1", "::1"):
            self.assertNotEqual(inside("attempt", family)[family], "EPERM", family)

    def test_host_ports(self):
        """Of the host's own address an entry opens only these."""
        servers = self.lab.client.call(
            lambda: [socket.create_server((CLIENT4, 0)) for _ in range(2)])
        for server in servers:
            self.addCleanup(server.close)
        opened, closed = (server.getsockname()[1] for server in servers)
        keeper = self.keeper(operator=["-", str(opened)])
        inside = self.inside(self.create(keeper, text=policy(setup=allowlist(CLIENT4, A4))))
        self.assertEqual(self.reachable(inside), {A4})
        self.assertEqual(inside("open_stream", "open", CLIENT4, port=opened)["errno"], "")
        self.assertEqual(inside("open_stream", "shut", CLIENT4, port=closed)["errno"], "EPERM")

    def test_host_addresses_that_nobody_heard_of(self):
        """More changes than the agent's socket holds: afterwards it knows what is there, and what
        has gone."""
        server = self.lab.client.call(lambda: socket.create_server(("0.0.0.0", 0)))
        self.addCleanup(server.close)
        keeper = self.keeper(operator=["-", "9"])
        net = "198.19.0.0/16"
        inside = self.inside(self.create(keeper, text=policy(setup=allowlist(net))))
        addresses = [f"198.19.{i // 200}.{i % 200 + 1}" for i in range(2000)]
        gone, came = addresses[0], addresses[-1]
        self.lab.client.ip(f"addr add {gone}/32 dev lo")
        self.addCleanup(self.lab.client.ip, f"addr del {came}/32 dev lo")

        def closed(address):
            return inside("open_stream", address, address,
                          port=server.getsockname()[1])["errno"] == "EPERM"

        self.wait_for(lambda: closed(gone))
        os.kill(keeper.pid, signal.SIGSTOP)
        self.lab.client.ip(*(f"addr add {address}/32 dev lo" for address in addresses[1:]),
                           *(f"addr del {address}/32 dev lo" for address in addresses[:-1]))
        os.kill(keeper.pid, signal.SIGCONT)
        self.wait_for(lambda: not closed(gone), about="it is thought to be there")
        self.assertTrue(closed(came))

    def test_guard(self):
        """Without an Environment there is no network below the parent, whoever is alive."""
        keeper = self.keeper()
        member = self.create(keeper, text=policy(setup=PUBLIC))["member"]
        inside = self.inside({"member": member})
        stray = f"/{PARENT}/stray"
        os.mkdir(cgroups.path_of(stray))
        self.addCleanup(cgroups.remove, cgroups.path_of(stray), "cgroup2")
        outside = self.inside({"member": stray})
        self.assertEqual(self.reachable(outside), set())
        self.assertNotEqual(outside("open_stream", "lo", "127.0.0.1", port=9)["errno"],
                            "ECONNREFUSED")
        keeper.kill()
        self.assertEqual(self.reachable(outside), set())
        self.assertEqual(self.reachable(inside), {A4, B4, D4})
        keeper = self.keeper()
        keeper("adopt", self.name)
        self.assertEqual(self.reachable(outside), set())
        self.assertEqual(self.reachable(inside), {A4, B4, D4})
        # It becomes one, and a given one may be released: then it is a stray again.
        keeper("leave")
        keeper("create", self.name + "-2", policy(setup=PUBLIC), "setup", "a", stray)
        self.assertEqual(self.reachable(outside), {A4, B4, D4})
        keeper("destroy", "kill")


class Survivors(AdoptTest):
    def test_too_deep(self):
        """Further down than is looked: nobody is missed without a word, in a given cgroup, whose
        depth has no limit."""
        cgroup = self.make_cgroup("nested")
        keeper = self.keeper()
        self.create(keeper, cgroup, text=TEXT)
        deep = cgroup + "/n" * 64
        os.makedirs(cgroups.path_of(deep))
        deepest = self.inside({"member": deep})
        self.assertEqual([pid for pid, _, _ in keeper("survivors", "0", "list")["survivors"]],
                         [deepest("pid")])
        os.mkdir(cgroups.path_of(deep + "/n"))
        self.inside({"member": deep + "/n"})
        self.assertEqual(keeper.refused("survivors", "0", "list"), "ELOOP")
        self.assertEqual(keeper.refused("switch", "run"), "ELOOP")
        self.assertEqual(self.reachable(deepest), {B4})
        keeper("destroy", "kill")
        os.rmdir(cgroups.path_of(cgroup))

    def test_kill(self):
        """What was there before goes on; what was started later ends, with what it starts."""
        keeper = self.keeper()
        before = self.inside(self.create(keeper, text=TEXT))
        now = str(self.later(keeper))
        after = [self.inside(keeper("state")) for _ in range(3)]
        listed = keeper("survivors", now, "list")["survivors"]
        self.assertEqual({pid for pid, _, _ in listed}, {client("pid") for client in after})
        self.assertEqual({cgroup for _, _, cgroup in listed}, {keeper("state")["member"]})
        ended = keeper("survivors", now, "kill")["survivors"]
        self.assertEqual(sorted(ended), sorted(listed))
        for client in after:
            self.assertEqual(client.process.wait(5), -9)
        self.assertEqual(self.reachable(before), {A4})
        self.assertEqual(keeper("survivors", now, "list")["survivors"], [])

    def later(self, keeper):
        """A time that no process has been started at yet: process times are in ticks of 10 ms."""
        start = keeper("now")["now"]
        return self.wait_for(lambda: keeper("now")["now"] > start + 20_000_000 and
                             keeper("now")["now"])[0]

    def test_freeze(self):
        """In cgroups made for it; and thawed they are where they were. No signal ends it."""
        keeper = self.keeper()
        state = self.create(keeper, text=TEXT)
        before = self.inside(state)
        now = str(self.later(keeper))
        among = self.inside(state)
        own = state["member"] + "/own"
        os.mkdir(cgroups.path_of(own))
        alone = self.inside({"member": own})
        pids = [client("pid") for client in (among, alone)]
        self.assertEqual({pid for pid, _, _ in keeper("survivors", now, "freeze")["survivors"]},
                         set(pids))
        for pid, cgroup in zip(pids, (state["member"], own)):
            where = cgroup_of(pid)
            self.assertRegex(where, f"^{re.escape(cgroup)}/frozen-[0-9a-f]{{8}}$")
            self.assertEqual(before("run", "sh", "-c", f"kill -CONT {pid}")["status"], 0)
            with open(cgroups.path_of(where) + "/cgroup.events", encoding="ascii") as file:
                self.assertIn("frozen 1", file.read())
        self.assertEqual(self.reachable(before), {A4})
        # Once more is no more than once.
        keeper("survivors", now, "freeze")
        self.assertRegex(cgroup_of(pids[0]), f"^{re.escape(state['member'])}/frozen-[^/]*$")
        keeper("thaw")
        for client, pid, cgroup in zip((among, alone), pids, (state["member"], own)):
            self.assertEqual(self.reachable(client), {A4})
            self.assertEqual(cgroup_of(pid), cgroup)
        self.assertEqual(os.listdir(cgroups.path_of(own)).count("frozen"), 0)

    def test_forking(self):
        """What starts processes all the time cannot outrun it."""
        keeper = self.keeper()
        state = self.create(keeper, text=TEXT)
        now = str(self.later(keeper))
        run = self.run_command(command=[
            "sh", "-c", f"echo $$ >{cgroups.path_of(state['member'])}/cgroup.procs; echo in;"
            "fork() { sleep 0.01; fork & exit; }; fork & fork & fork & wait"])
        self.assertEqual(run.line(), "in")
        keeper("survivors", now, "kill")
        self.assertEqual(cgroups.processes(cgroups.path_of(state["member"])), [])


if __name__ == "__main__":
    isolate()
    main()
