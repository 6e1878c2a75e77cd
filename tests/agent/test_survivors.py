#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who was started in the run and goes on sending, in whatever way, sends not a byte after it."""

import os
import subprocess

import cgroups
from agentcase import AgentTest
from daemon import directory_of
from harness import main, token
from lab import A4, D4
from phasegate import NO_NETWORK, PUBLIC, allowlist
from recorder import PORT, RST, TCP
from storm import SENDER

WIDER = {"network_policy": PUBLIC, "run_network_policy": allowlist(A4),
         "verifier_network_policy": PUBLIC}
NARROWER = {"network_policy": NO_NETWORK, "run_network_policy": allowlist(A4),
            "verifier_network_policy": NO_NETWORK}
WAYS = ("plain", "daemon", "thread", "tree", "chains")
PAUSE_US = 3000


class Survivors(AgentTest):
    def start(self, directory, way, *before):
        """A sender of that way which has sent something."""
        mark = token(way)
        process = self.start_in(directory, *before, *self.lab.client.command(
            SENDER, way, mark, str(PAUSE_US), A4, str(PORT), D4, str(PORT)))
        self.assertIsNotNone(self.recorder.wait(mark, 30))
        return process, mark

    def sent_since(self, mark):
        """What of it has come since the capture was drained."""
        return [p for p in self.fence() if mark.encode() in p.payload]

    def run_phase(self, policy=None):
        made = self.create(policy or WIDER)
        self.daemon.phase(made["name"], "run")
        return made["name"], directory_of(made)

    def check(self, name, directory, marks, phase="setup", gone=True, **more):
        """Not one to the address that was never allowed, and after the reply none at all."""
        reply = self.daemon.phase(name, phase, **more)
        self.assertEqual(reply.status, 200, reply)
        # A connection of an earlier test that was cut short can be reset only now, by the kernel.
        packets = [p for p in self.fence() if not (p.protocol == TCP and p.flags & RST)]
        self.assertEqual([p for p in packets if p.destination == D4], [])
        for mark in marks:
            self.assertEqual(self.sent_since(mark), [])
        if gone:
            self.assertEqual(cgroups.processes(directory), [])
        return reply

    def test_killed(self):
        for phase in ("setup", "verifier"):
            for way in WAYS:
                with self.subTest(phase=phase, way=way):
                    name, directory = self.run_phase()
                    _, mark = self.start(directory, way)
                    reply = self.check(name, directory, [mark], phase)
                    self.assertTrue(reply["widened"])
                    self.assertNotEqual(reply["survivors"], [])
                    self.daemon.destroy(name)

    def test_killed_all_at_once(self):
        """In cgroups below, with another session, stopped, frozen; and one of the setup stays."""
        made = self.create(WIDER)
        name, directory = made["name"], directory_of(made)
        stays = self.start_in(directory, "sleep", "1000")
        self.wait_in(directory, stays.pid)
        self.later(directory)
        self.daemon.phase(name, "run")
        below, hidden = directory + "/one/two", directory + "/.one/.two"
        os.makedirs(below)
        os.makedirs(hidden)
        started = [self.start(below, "daemon"), self.start(hidden, "plain"),
                   self.start(directory, "plain", "nohup"),
                   self.start(directory, "plain", "setsid"), self.start(directory, "thread")]
        stopped, mark = self.start(directory, "plain")
        os.kill(stopped.pid, 19)
        frozen = directory + "/frozen"
        os.mkdir(frozen)
        started += [(stopped, mark), self.start(frozen, "plain")]
        with open(frozen + "/cgroup.freeze", "w", encoding="ascii") as file:
            file.write("1")
        self.check(name, directory, [mark for _, mark in started], gone=False)
        self.assertEqual(cgroups.processes(directory), [stays.pid])

    def later(self, directory):
        """Until process times, in ticks of 10 ms, tell a process apart from those before."""
        def ticks(pid):
            with open(f"/proc/{pid}/stat", encoding="ascii") as file:
                return int(file.read().rsplit(")", 1)[1].split()[19])

        first = None
        while True:
            probe = subprocess.Popen(["sleep", "1000"])
            now = ticks(probe.pid)
            probe.kill()
            probe.wait()
            first = first or now
            if now > first + 1:
                return

    def test_frozen(self):
        for way in WAYS:
            with self.subTest(way=way):
                name, directory = self.run_phase()
                process, mark = self.start(directory, way)
                self.check(name, directory, [mark], gone=False, survivors="freeze")
                pids = cgroups.processes(directory)
                self.assertNotEqual(pids, [])
                for pid in pids:
                    os.kill(pid, 18)
                self.assertEqual(self.sent_since(mark), [])
                # In another phase, too; and in the next run they go on.
                self.daemon.phase(name, "verifier", survivors="freeze")
                self.assertEqual(self.sent_since(mark), [])
                self.recorder.forget()
                self.daemon.phase(name, "run")
                self.assertIsNotNone(self.recorder.wait(mark))
                self.check(name, directory, [mark])
                self.daemon.destroy(name)

    def test_frozen_with_the_agent_killed(self):
        name, directory = self.run_phase()
        _, mark = self.start(directory, "plain")
        self.check(name, directory, [mark], gone=False, survivors="freeze")
        self.daemon.kill()
        self.daemon.start()
        self.assertEqual(self.sent_since(mark), [])
        self.daemon.phase(name, "run")
        self.assertIsNotNone(self.recorder.wait(mark))

    def test_refused(self):
        for way in WAYS:
            with self.subTest(way=way):
                name, directory = self.run_phase()
                _, mark = self.start(directory, way)
                reply = self.daemon.phase(name, "setup", survivors="refuse")
                self.assertCode(reply, "survivors_present")
                self.assertEqual([p for p in self.fence() if p.destination == D4], [])
                reply = self.daemon.destroy(name)
                self.assertEqual(reply.status, 200, reply)
                self.assertEqual(cgroups.processes(directory), [])

    def test_allowed(self):
        """What the caller wants: the phase in force is what judges them."""
        name, directory = self.run_phase()
        _, mark = self.start(directory, "daemon")
        self.daemon.phase(name, "setup", survivors="allow")
        self.recorder.forget()
        self.assertIsNotNone(self.recorder.wait(mark))
        self.assertTrue(any(mark.encode() in p.payload and p.destination == D4
                            for p in self.wait_denied(mark)))

    def wait_denied(self, mark):
        for _ in range(100):
            packets = self.fence()
            if any(mark.encode() in p.payload and p.destination == D4 for p in packets):
                return packets
        return []

    def test_narrower(self):
        """Nobody is ended, and nothing is sent."""
        for way in ("plain", "daemon", "thread", "tree"):
            with self.subTest(way=way):
                name, directory = self.run_phase(NARROWER)
                _, mark = self.start(directory, way)
                for phase in ("verifier", "setup"):
                    self.check(name, directory, [mark], phase, gone=False)
                    self.assertNotEqual(cgroups.processes(directory), [])
                self.daemon.destroy(name)

    def test_by_way_of_an_update(self):
        """What is wider may be the policy, too."""
        name, directory = self.run_phase(NARROWER)
        _, mark = self.start(directory, "daemon")
        self.check(name, directory, [mark], gone=False)
        self.capture.drain()
        reply = self.daemon.call("PUT", f"/v1/environments/{name}/policy", {"policy": WIDER})
        self.assertEqual(reply.status, 200, reply)
        self.assertEqual(self.sent_since(mark), [])
        self.assertEqual(cgroups.processes(directory), [])


if __name__ == "__main__":
    main()
