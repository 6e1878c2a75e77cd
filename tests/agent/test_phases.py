#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Switches as a harness makes them: what is reachable, survivors of the run, leases."""

import errno
import json
import os
import subprocess
import sys
import time

from agentcase import AgentTest
from daemon import directory_of
from harness import main, token
from lab import A4, B4, CLIENT4, CLIENT6, D4
from phasegate import NO_NETWORK, PROBE, PUBLIC, allowlist
from recorder import PORT

HEADLESS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "headless.py")
POLICY = {"network_policy": PUBLIC, "run_network_policy": allowlist(A4),
          "verifier_network_policy": NO_NETWORK}

# argv: own addresses. A client is connected at each, to what the kernel does not call a socket until
# the client has sent something; that comes when it is told to.
OWN = """
import socket, sys
pairs = []
for address in sys.argv[1:]:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    server = socket.socket(family, socket.SOCK_STREAM)
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, 60)
    server.bind((address, 0))
    server.listen()
    pairs.append((server, socket.create_connection(server.getsockname()[:2])))
print("ready", flush=True)
input()
for address, (server, client) in zip(sys.argv[1:], pairs):
    client.sendall(address.encode())
    print(server.accept()[0].recv(100).decode(), end=" ")
print(flush=True)
"""


class Phases(AgentTest):
    def send(self, directory, address, label):
        """From a new process of the Environment; whether it arrived is for the caller to see."""
        mark = token(label)
        process = self.start_in(directory, *self.lab.client.command(
            PROBE, "socket 1 udp4", f"sendto 1 {address} {PORT} {mark}"))
        process.wait()
        return mark

    def flood(self, directory, *addresses):
        """A sender that goes on until it is killed."""
        mark = token("flood")
        targets = " ".join(f"{address} {PORT}" for address in addresses)
        process = self.start_in(directory, *self.lab.client.command(
            PROBE, f"flood {mark} {targets}"))
        return process, mark

    def assertArrives(self, mark):
        self.assertIsNotNone(self.recorder.wait(mark))

    def test_what_is_reachable(self):
        made = self.create(POLICY)
        directory = directory_of(made)
        for phase, reached in (("setup", (A4, D4)), ("run", (A4,)), ("verifier", ()),
                               ("setup", (A4, D4))):
            self.daemon.phase(made["name"], phase, survivors="allow")
            self.recorder.forget()
            self.capture.drain()
            marks = {address: self.send(directory, address, phase) for address in (A4, D4)}
            for address in reached:
                self.assertArrives(marks[address])
            self.assert_silent(*({A4, D4} - set(reached)))

    def test_what_is_within_stays_open(self):
        """By own addresses, also where the other end is not seen at that moment."""
        made = self.create(POLICY)
        own = ("127.0.0.1", "::1", CLIENT4, CLIENT6)
        process = self.start_in(directory_of(made), *self.lab.client.command(
            sys.executable, "-c", OWN, *own), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True)
        self.assertEqual(process.stdout.readline(), "ready\n")
        for phase in ("run", "verifier"):
            self.assertEqual(self.daemon.phase(made["name"], phase)["closed"], 0)
        process.stdin.write("\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline().split(), list(own))

    def test_of_a_process_without_its_first_thread(self):
        """What it has open is closed like that of others."""
        made = self.create(POLICY)
        process = self.start_in(directory_of(made), *self.lab.client.command(
            sys.executable, HEADLESS, D4, str(PORT)), stdout=subprocess.PIPE, text=True)
        self.assertEqual(process.stdout.readline(), "ready\n")
        self.assertEqual(self.daemon.phase(made["name"], "run")["closed"], 1)
        self.assertEqual(process.stdout.readline(), f"{errno.ECONNABORTED}\n")

    def test_survivors_are_killed_before_the_phase_is_wider(self):
        made = self.create(POLICY)
        self.daemon.phase(made["name"], "run")
        process, mark = self.flood(directory_of(made), D4, A4)
        self.assertArrives(mark)
        self.capture.drain()
        reply = self.daemon.phase(made["name"], "setup")
        self.assertEqual((reply["phase"], reply["widened"], reply["survivors_choice"]),
                         ("setup", True, "kill"))
        self.assertEqual([s["pid"] for s in reply["survivors"]], [process.pid])
        self.assertEqual(reply["survivors"][0]["command"], "probe")
        self.assertEqual(process.wait(), -9)
        self.assert_silent(D4)

    def test_survivors_by_way_of_a_narrower_phase(self):
        made = self.create(POLICY)
        self.daemon.phase(made["name"], "run")
        process, mark = self.flood(directory_of(made), D4, A4)
        self.assertArrives(mark)
        reply = self.daemon.phase(made["name"], "verifier")
        self.assertFalse(reply["widened"])
        self.assertIsNone(process.poll())
        self.fence()
        reply = self.daemon.phase(made["name"], "setup")
        self.assertEqual([s["pid"] for s in reply["survivors"]], [process.pid])
        self.assertEqual(process.wait(), -9)
        self.assert_silent(A4, D4)

    def test_processes_from_before_the_run_stay(self):
        made = self.create(POLICY)
        process = self.start_in(directory_of(made), "sleep", "1000")
        self.wait_in(directory_of(made), process.pid)
        # Process times have a resolution of 10 ms, and who is in doubt counts as of the run.
        time.sleep(0.05)
        self.daemon.phase(made["name"], "run")
        reply = self.daemon.phase(made["name"], "setup")
        self.assertEqual(reply["survivors"], [])
        self.assertIsNone(process.poll())

    def test_refuse_and_allow(self):
        made = self.create(POLICY)
        self.daemon.phase(made["name"], "run")
        process = self.start_in(directory_of(made), "sleep", "1000")
        self.wait_in(directory_of(made), process.pid)
        reply = self.daemon.phase(made["name"], "setup", survivors="refuse")
        self.assertCode(reply, "survivors_present")
        self.assertEqual([s["pid"] for s in reply["survivors"]], [process.pid])
        self.assertEqual(self.daemon.show(made["name"])["phase"], "run")
        reply = self.daemon.phase(made["name"], "setup", survivors="allow")
        self.assertEqual([s["pid"] for s in reply["survivors"]], [process.pid])
        self.assertEqual(reply["phase"], "setup")
        self.assertIsNone(process.poll())

    def test_freeze(self):
        made = self.create(POLICY)
        self.daemon.phase(made["name"], "run")
        process, mark = self.flood(directory_of(made), D4, A4)
        self.assertArrives(mark)
        self.capture.drain()
        reply = self.daemon.phase(made["name"], "setup", survivors="freeze")
        self.assertEqual([s["pid"] for s in reply["survivors"]], [process.pid])
        self.assertTrue(self.daemon.show(made["name"])["frozen"])
        self.assertIsNone(process.poll())
        self.fence()
        self.assert_silent(A4, D4)
        self.recorder.forget()
        self.assertFalse(self.daemon.phase(made["name"], "run")["widened"])
        self.assertFalse(self.daemon.show(made["name"])["frozen"])
        self.assertArrives(mark)
        self.daemon.phase(made["name"], "setup")
        self.assertEqual(process.wait(), -9)
        self.assert_silent(D4)

    def hold(self, directory, address):
        """An open connection; returns a function that asks the process that has it."""
        process = self.start_in(directory, *self.lab.client.command(PROBE),
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE)

        def ask(line):
            process.stdin.write(line.encode() + b"\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())["errno"]

        self.assertEqual(ask("socket 1 tcp4"), "")
        self.assertEqual(ask(f"connect 1 {address} {PORT}"), "")
        return ask

    def test_connections_are_closed(self):
        made = self.create(POLICY)
        denied = self.hold(directory_of(made), D4)
        allowed = self.hold(directory_of(made), A4)
        reply = self.daemon.phase(made["name"], "run")
        self.assertEqual(reply["closed"], 1)
        self.assertIn(denied("recv 1"), ("ECONNABORTED", "ECONNRESET"))
        self.assertEqual(allowed(f"send 1 {token('open')}"), "")

    def test_update_closes(self):
        made = self.create({"network_policy": allowlist(A4, B4)})
        denied = self.hold(directory_of(made), B4)
        allowed = self.hold(directory_of(made), A4)
        reply = self.daemon.call("PUT", f"/v1/environments/{made['name']}/policy",
                                 {"policy": {"network_policy": allowlist(A4)}})
        self.assertEqual(reply["closed"], 1)
        self.assertIn(denied("recv 1"), ("ECONNABORTED", "ECONNRESET"))
        self.assertEqual(allowed(f"send 1 {token('open')}"), "")

    def wait_event(self, name, kind, cursor):
        for _ in range(20):
            lines = self.daemon.call("GET", f"/v1/events?cursor={cursor}&environment={name}"
                                     "&follow=1").body
            cursor = lines[-1]["cursor"]
            for line in lines:
                if line["event"] == kind:
                    return line
        self.fail(f"no event {kind}")

    def now(self):
        return self.daemon.call("GET", "/v1/events?cursor=now").body[-1]["cursor"]

    def test_lease_falls_back_to_deny(self):
        made = self.create(POLICY)
        cursor = self.now()
        reply = self.daemon.phase(made["name"], "run", lease={"seconds": 1})
        self.assertEqual(reply["lease"]["then"], "deny")
        self.assertLessEqual(reply["lease"]["expires_in_ms"], 1000)
        _, mark = self.flood(directory_of(made), A4)
        self.assertArrives(mark)
        event = self.wait_event(made["name"], "lease_over", cursor)
        self.assertTrue(event["denied"])
        shown = self.daemon.show(made["name"])
        self.assertEqual((shown["denied"], shown["lease"]), (True, None))
        self.fence()
        self.assert_silent(A4, D4)
        reply = self.daemon.phase(made["name"], "run")
        self.assertEqual((reply["changed"], reply["lease"]), (True, None))
        self.assertFalse(self.daemon.show(made["name"])["denied"])

    def test_lease_falls_back_to_a_phase(self):
        made = self.create({"network_policy": NO_NETWORK, "run_network_policy": allowlist(A4)})
        cursor = self.now()
        reply = self.daemon.phase(made["name"], "run", lease={"seconds": 1})
        self.assertEqual(reply["lease"]["then"], "setup")
        event = self.wait_event(made["name"], "lease_over", cursor)
        self.assertEqual((event["denied"], event["phase"]), (False, "setup"))

    def test_lease_that_would_open(self):
        made = self.create(POLICY)
        self.assertCode(self.daemon.phase(made["name"], "run",
                                          lease={"seconds": 1, "then": "setup"}), "lease_wider")
        self.assertEqual(self.daemon.show(made["name"])["phase"], "setup")

    def test_lease_is_renewed_and_given_back(self):
        made = self.create({"network_policy": NO_NETWORK, "run_network_policy": allowlist(A4)})
        self.daemon.phase(made["name"], "run", lease={"seconds": 1})
        reply = self.daemon.phase(made["name"], "run", lease={"seconds": 1000})
        self.assertFalse(reply["changed"])
        self.assertGreater(reply["lease"]["expires_in_ms"], 900_000)
        time.sleep(1.2)
        self.assertEqual(self.daemon.show(made["name"])["phase"], "run")
        self.assertIsNone(self.daemon.phase(made["name"], "run")["lease"])
        self.assertIsNone(self.daemon.show(made["name"])["lease"])


if __name__ == "__main__":
    main()
