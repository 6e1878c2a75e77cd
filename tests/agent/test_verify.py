#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""phasegate verify: each row of its table, that what is off is seen, and that it ends well."""

import glob
import json
import os
import subprocess
import time

import cgroups
import openapi
from agentcase import AgentTest
from box import Box, let_forward
from daemon import UnixConnection, directory_of, read_reply
from harness import main
from lab import A4, D4, R4
from nameserver import NAME, Nameserver
from phasegate import NO_NETWORK, PUBLIC, allowlist
from recorder import PORT

BINARY = os.environ["PHASEGATE_BINARY"]
OWN = ("loopback-tcp", "loopback-udp")
# No hook on a cgroup sees these; the agent's namespace, where these Environments are, has no guard.
OPEN = ("mld", "igmp", "vsock")
BLOCKED = tuple(name for name in openapi.SCHEMAS["VectorName"]["enum"]
                if name not in (*OWN, *OPEN))


class Verify(AgentTest):
    SETTINGS = {"resolvers": [R4]}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        Nameserver(cls.lab)

    def verify(self, made, **body):
        return self.daemon.call("POST", f"/v1/environments/{made['name']}/verify", body or None)

    def probes(self, directory):
        return [name for name in os.listdir(directory) if name.startswith("verify")]

    def vectors(self, reply):
        """Results by name; the list is that of the description."""
        rows = {row["name"]: row for row in reply["vectors"]}
        self.assertEqual(list(rows), openapi.SCHEMAS["VectorName"]["enum"])
        return rows

    def test_outcomes(self):
        made = self.create({"network_policy": allowlist(A4)})
        allowed = f"{A4}:{PORT}"
        reply = self.verify(made, allowed=allowed, blocked=f"{D4}:{PORT}", without=OPEN)
        # Nobody is in the Environment, so it is tried from the agent's namespace, the client's.
        self.assertEqual((reply["result"], reply["allowed"]["result"], reply["blocked"]["result"]),
                         ("enforced", "reached", "blocked"))
        self.assertEqual(self.verify(made, allowed=allowed, blocked=allowed)["result"],
                         "not_enforced")
        self.assertEqual(self.verify(made, allowed=f"{D4}:{PORT}", blocked=f"{D4}:{PORT}",
                                     without=OPEN)["result"], "not_enforced")
        reply = self.verify(made, allowed=f"{A4}:1", blocked=f"{D4}:{PORT}", without=OPEN)
        self.assertEqual((reply["result"], reply["allowed"]["result"]),
                         ("inconclusive", "inconclusive"))
        self.assertEqual(self.probes(directory_of(made)), [])

    def test_denial_that_nobody_has_reported(self):
        """Refused by something else, or unseen: never taken for enforcement."""
        made = self.create({"network_policy": allowlist(A4)}, report_denials=False)
        reply = self.verify(made, allowed=f"{A4}:{PORT}", blocked=f"{D4}:{PORT}", without=OPEN)
        self.assertEqual((reply["result"], reply["blocked"]["result"]),
                         ("inconclusive", "inconclusive"))
        rows = self.vectors(reply)
        self.assertEqual({rows[name]["result"] for name in BLOCKED}, {"inconclusive"})

    def test_every_vector(self):
        """In a phase that allows something, and in one that allows nothing."""
        made = self.create({"network_policy": allowlist(A4), "run_network_policy": NO_NETWORK})
        for body in ({"allowed": f"{A4}:{PORT}", "blocked": f"{D4}:{PORT}"}, {}):
            self.recorder.forget()
            reply = self.verify(made, **body)
            rows = self.vectors(reply)
            self.assertEqual({name: row["result"] for name, row in rows.items()
                              if name in BLOCKED and row["result"] != "not_possible"
                              and row["result"] != "blocked"}, {}, reply)
            # What this machine lacks is not more than that.
            self.assertLess(sum(row["result"] == "not_possible" for row in rows.values()), 5,
                            reply)
            for name in OWN:
                self.assertEqual((rows[name]["expected"], rows[name]["result"]),
                                 ("passed", "passed"), reply)
            self.assert_silent(D4)
            self.daemon.phase(made["name"], "run")

    def test_groups_without_a_guard(self):
        """The kernel tells the network of groups by a socket of its own: seen, and said."""
        made = self.create({"network_policy": NO_NETWORK})
        reply = self.verify(made, without=["vsock"])
        for name in ("mld", "igmp"):
            row = self.vectors(reply)[name]
            self.assertEqual((row["result"], row["wrong"]), ("passed", True), row)
        self.assertEqual(reply["result"], "not_enforced")
        self.assertEqual(self.verify(made, without=OPEN)["result"], "enforced")

    def test_groups_with_a_guard(self):
        """In a namespace of its own, on a link that is guarded: nothing is told."""
        let_forward(self.lab)
        box = Box(self.lab, 1)
        self.addCleanup(box.close)
        cgroup = self.make_cgroup(self.name("boxed"))
        process = self.start_in(cgroups.path_of(cgroup), *box.namespace.command("sleep", "1000"))
        self.wait_in(cgroups.path_of(cgroup), process.pid)
        made = self.create({"network_policy": allowlist(A4)}, members=[{"cgroup": cgroup}],
                           attach=True)
        reply = self.verify(made, allowed=f"{A4}:{PORT}", blocked=f"{D4}:{PORT}",
                            without=["vsock"])
        rows = self.vectors(reply)
        self.assertEqual({name: rows[name]["result"] for name in ("mld", "igmp")},
                         {"mld": "blocked", "igmp": "blocked"}, reply)
        self.assertEqual(reply["result"], "enforced", reply)

    def test_public(self):
        """Nothing is to be blocked, so nothing is proved; what is off would be seen."""
        made = self.create({"network_policy": PUBLIC})
        reply = self.verify(made, allowed=f"{A4}:{PORT}")
        rows = self.vectors(reply)
        self.assertEqual({rows[name]["result"] for name in (*BLOCKED, *OPEN)}, {"not_possible"})
        self.assertEqual(reply["result"], "inconclusive")
        self.assertEqual(reply["allowed"]["result"], "reached")

    def test_localhost(self):
        """An entry that opens 127.0.0.1: that this is reached by another device is not off."""
        made = self.create({"network_policy": allowlist("localhost", A4)})
        reply = self.verify(made, allowed=f"{A4}:{PORT}", without=OPEN)
        row = self.vectors(reply)["bound-loopback"]
        self.assertEqual((row["result"], row["wrong"]), ("not_possible", False), row)
        self.assertEqual(reply["result"], "enforced", reply)

    def test_names(self):
        """The resolver in the path is who answers at any nameserver's port."""
        made = self.create({"network_policy": allowlist(NAME)})
        row = self.vectors(self.verify(made, blocked=f"{D4}:{PORT}"))["dns"]
        self.assertEqual((row["result"], row["reason"]),
                         ("blocked", "answered by the resolver in the path"))
        self.assert_silent(D4)

    def test_other_phases(self):
        """They are not switched to, but looked up in the kernel."""
        made = self.create({"network_policy": NO_NETWORK,
                            "run_network_policy": allowlist(A4, "2001:db8::/32"),
                            "verifier_network_policy": allowlist("192.0.2.0/24")})
        reply = self.verify(made, without=OPEN)
        self.assertEqual(reply["result"], "enforced", reply)
        self.assertEqual(set(reply["phases"]), {"run", "verifier"})
        rows = {(phase, kind): (row["address"], row["result"], row["wrong"])
                for phase, both in reply["phases"].items() for kind, row in both.items()}
        self.assertEqual(rows, {
            ("run", "allowed"): (A4, "allowed", False),
            ("run", "blocked"): ("192.0.2.1", "denied", False),
            ("verifier", "allowed"): ("192.0.2.0", "allowed", False),
            ("verifier", "blocked"): ("198.51.100.1", "denied", False)})
        self.assertEqual(self.daemon.show(made["name"])["generation"], 1)

    def bpftool(self, *words):
        done = subprocess.run(["bpftool", *words], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_a_table_that_is_gone(self):
        """The kernel is asked, and not what the agent remembers."""
        made = self.create({"network_policy": NO_NETWORK, "run_network_policy": allowlist(A4)})
        maps = glob.glob(f"{self.daemon.pins}/+maps-*/pg_sets")
        self.assertEqual(len(maps), 1)
        for slot in json.loads(self.bpftool("-j", "map", "dump", "pinned", maps[0])):
            self.bpftool("map", "delete", "pinned", maps[0], "key", *slot["key"])
        reply = self.verify(made, without=OPEN)
        row = reply["phases"]["run"]["allowed"]
        self.assertEqual((row["result"], row["wrong"], reply["result"]),
                         ("inconclusive", True, "not_enforced"), reply)
        self.assertIn("is not there", row["reason"])

    def test_a_hook_that_is_gone(self):
        """What only the packets' hook sees goes out, and is said to."""
        made = self.create({"network_policy": NO_NETWORK})
        cgroup = cgroups.path_of(made["cgroup_parent"])
        shown = json.loads(self.bpftool("-j", "cgroup", "show", cgroup))
        egress, = (program["id"] for program in shown if program["name"] == "pg_egress")
        self.bpftool("cgroup", "detach", cgroup, "egress", "id", str(egress), "multi")
        reply = self.verify(made, blocked=f"{D4}:{PORT}", without=OPEN)
        rows = self.vectors(reply)
        self.assertEqual({name: rows[name]["result"] for name in ("udp-lite", "udp-sendto")},
                         {"udp-lite": "passed", "udp-sendto": "blocked"})
        self.assertEqual(reply["result"], "not_enforced")

    def test_what_is_left_out(self):
        made = self.create({"network_policy": NO_NETWORK})
        reply = self.verify(made, without=["ping", *OPEN])
        self.assertEqual((self.vectors(reply)["ping"]["result"], reply["result"]),
                         ("not_possible", "enforced"))
        self.assertCode(self.verify(made, without=["png"]), "request_invalid")
        self.assertCode(self.verify(made, without="ping"), "request_invalid")

    def run_cli(self, made, *words):
        return subprocess.run(
            [BINARY, "verify", made["name"], *words], capture_output=True, text=True, timeout=60,
            check=False, env={**os.environ, "PHASEGATE_SOCKET": self.daemon.socket})

    def test_command(self):
        without = [word for name in OPEN for word in ("--without", name)]
        made = self.create({"network_policy": NO_NETWORK, "run_network_policy": PUBLIC})
        done = self.run_cli(made, *without)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for text in ("phase setup: enforced", "ok  setup", "by the kernel's report"):
            self.assertIn(text, done.stdout)
        done = self.run_cli(made, "--allowed", f"{D4}:{PORT}", *without)
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertRegex(done.stdout, rf"(?m)^OFF  setup +allowed {D4}:{PORT} +blocked ")
        done = self.run_cli(made, "--json", "--without", "nothing")
        self.assertEqual((done.returncode, json.loads(done.stdout)["code"]),
                         (2, "request_invalid"))
        self.daemon.phase(made["name"], "run")
        done = self.run_cli(made, "--json", "--allowed", f"{A4}:{PORT}")
        self.assertEqual((done.returncode, json.loads(done.stdout)["result"]),
                         (4, "inconclusive"))

    def start_verify(self, made):
        """One that takes seconds: nobody answers."""
        connection = UnixConnection(self.daemon.socket)
        self.addCleanup(connection.close)
        connection.request("POST", f"/v1/environments/{made['name']}/verify",
                           '{"allowed":"198.51.100.7:9","blocked":"%s:9"}' % D4)
        for _ in range(10000):
            if self.probes(directory_of(made)):
                return connection
            time.sleep(0.001)
        self.fail("no probe starts")

    def slow(self, **more):
        """With an address whose packets go nowhere."""
        self.lab.client.ip("route replace 198.51.100.7 dev lo")
        return self.create({"network_policy": allowlist("198.51.100.7")}, **more)

    def test_too_many_at_once(self):
        """Each is a process."""
        made = self.slow()
        for _ in range(16):
            connection = UnixConnection(self.daemon.socket)
            self.addCleanup(connection.close)
            connection.request("POST", f"/v1/environments/{made['name']}/verify",
                               '{"allowed":"198.51.100.7:9"}')
        while len(self.probes(directory_of(made))) < 16:
            time.sleep(0.01)
        self.assertCode(self.verify(made), "too_many_clients")
        # Their clients do not wait for the end, and nobody else for them.
        self.daemon.destroy(made["name"])
        other = self.create({"network_policy": NO_NETWORK})
        self.assertEqual(self.verify(other, without=OPEN)["result"], "enforced")

    def test_destroy_meanwhile(self):
        for processes in ("kill", "refuse", "release"):
            cgroup = self.make_cgroup("v" + processes)
            made = self.slow(members=[{"cgroup": cgroup}])
            directory = directory_of(made)
            connection = self.start_verify(made)
            reply = self.daemon.destroy(made["name"], processes)
            self.assertIn(reply.code, (None, "environment_populated"), reply)
            answer = read_reply(connection, "POST", f"/v1/environments/{made['name']}/verify")
            if reply.status == 200:
                self.assertCode(answer, "environment_not_found")
            self.assertEqual(self.probes(directory), [], processes)
            self.daemon.destroy(made["name"])

    def test_another_of_the_name_meanwhile(self):
        made = self.slow()
        connection = self.start_verify(made)
        self.daemon.destroy(made["name"])
        self.create({"network_policy": PUBLIC}, name=made["name"])
        answer = read_reply(connection, "POST", f"/v1/environments/{made['name']}/verify")
        self.assertCode(answer, "environment_not_found")

    def test_agent_killed_meanwhile(self):
        cgroup = self.make_cgroup("k")
        made = self.slow(members=[{"cgroup": cgroup}])
        self.start_verify(made)
        self.daemon.kill()
        self.daemon.start()
        self.assertEqual(self.probes(directory_of(made)), [])
        self.assertEqual(self.daemon.destroy(made["name"], "refuse").status, 200)
        self.assertEqual(os.listdir(directory_of(made)).count("cgroup.procs"), 1)
        self.assertEqual(self.probes(directory_of(made)), [])


if __name__ == "__main__":
    main()
