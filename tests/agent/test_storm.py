#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9 of the agent at random moments, in the middle of calls and of adopting, while a harness
drives 20 Environments, made and destroyed, switched and updated, two of them with a guarded link of
their own, in which processes send and ask for names all the time. Every packet is judged: none that
is forbidden arrives, and none that is allowed is denied or lost.

PHASEGATE_STORM_SECONDS: how long (600 for a release); 30 without it.
PHASEGATE_STORM_KILLS: instead, how often the agent is killed.
PHASEGATE_STORM_SEED: of an earlier run, for the same calls (not for the same moments).
PHASEGATE_STORM_RESTART_MS: fail if the median time from start to serving is above it.
"""

import contextlib
import http.client
import os
import random
import statistics
import tempfile
import threading
import time

import cgroups
from box import Box, let_forward
from daemon import Daemon, start_in
from dnslab import NOBODY4
from dnsserver import DnsServer
from harness import LabTest, main
from keeper import BPFFS, RECORDS, Inside, isolate
from lab import A6, R4
from phasegate import PHASES, reap_orphans
from recorder import PORT
from storm import (POLICIES, SENDER, TARGETS, WWW, State, StampedCapture, Subject, judge,
                   state_of, wronged)

ENVIRONMENTS, DRIVERS = 20, 4
# The first ones stay, and have a client that asks for a name after each restart.
ASKING = 3
# Those with two given cgroups, of which processes go on when they are released.
GIVEN = range(ENVIRONMENTS - 4, ENVIRONMENTS)
# Of these, those with a network namespace and a link of their own, which go with their processes.
BOXED = range(ENVIRONMENTS - 2, ENVIRONMENTS)
KILLS = int(os.environ.get("PHASEGATE_STORM_KILLS", "0"))
LIMIT_S, LEAST = float(os.environ.get("PHASEGATE_STORM_SECONDS", "30")), 5
SEED = int(os.environ.get("PHASEGATE_STORM_SEED", time.time_ns() & 0xffffff))
RESTART_MS = float(os.environ.get("PHASEGATE_STORM_RESTART_MS", "inf"))
# Between the packets of one sender; there are 24 of them, and one machine.
PAUSE_US = 8000
# Of the time between two kills.
CALM_S = 0.3
DNS_LIMIT_S = 20
DOWN = (OSError, http.client.HTTPException, ValueError)


class Driver(threading.Thread):
    """Makes calls, one at a time, for Environments of its own, until it is told to end."""

    def __init__(self, storm, subjects, seed):
        super().__init__(daemon=True)
        self.storm, self.subjects = storm, subjects
        self.random = random.Random(seed)
        self.calls, self.failure = 0, None

    def run(self):
        try:
            while not self.storm.ending:
                try:
                    self.step(self.random.choice(self.subjects))
                except DOWN:
                    self.storm.park()
        except BaseException as error:
            self.failure = error
            self.storm.park(for_good=True)

    def call(self, subject, wanted, expected, method, target, body=None):
        subject.begin(wanted)
        try:
            reply = self.storm.daemon.call(method, target, body)
        except (ConnectionRefusedError, FileNotFoundError):
            subject.flight = None
            raise
        assert reply.status == expected, (subject.name, method, target, body, reply)
        self.calls += 1
        return reply

    def step(self, subject):
        path = f"/v1/environments/{subject.name}"
        state, dice = subject.state, self.random.random()
        asking = subject.number < ASKING
        if state is None:
            self.create(subject)
        elif dice < 0.75 or (asking and dice < 0.9):
            others = [p for p in PHASES if p != state.phase and not (asking and p == "verifier")]
            wanted = State(state.version, self.random.choice(others), state.generation + 1)
            reply = self.call(subject, wanted, 200, "PUT", path + "/phase",
                              {"phase": wanted.phase, "survivors": "allow"})
            subject.done(wanted._replace(generation=reply["generation"]))
            assert subject.state == wanted, (subject.name, wanted, reply)
        elif dice < 0.9 or asking:
            wanted = State(1 - state.version, state.phase, state.generation + 1)
            reply = self.call(subject, wanted, 200, "PUT", path + "/policy",
                              {"policy": POLICIES[wanted.version]})
            subject.done(wanted._replace(generation=reply["generation"]))
            assert subject.state == wanted, (subject.name, wanted, reply)
        else:
            how = self.random.choice(("kill", "release")) if subject.members else "kill"
            self.call(subject, None, 200, "DELETE", f"{path}?processes={how}")
            subject.done(None)

    def create(self, subject):
        # A container has a process before it is attached to.
        if subject.members:
            self.storm.send_from(subject)
        wanted = State(self.random.randrange(2), self.random.choice(PHASES), 1)
        if subject.number < ASKING:
            wanted = wanted._replace(phase="setup")
        self.call(subject, wanted, 201, "POST", "/v1/environments", subject.body(wanted))
        subject.done(wanted)
        self.storm.send_from(subject)


class Storm(LabTest):
    def setUp(self):
        self.capture = StampedCapture(self.lab)
        self.names = DnsServer(self.lab)
        self.names.host(WWW, A6)
        let_forward(self.lab)
        self.daemon = Daemon(self.lab, resolvers=[R4])
        self.addCleanup(self.daemon.close)
        self.ending, self.parked, self.round = False, 0, 0
        self.condition = threading.Condition()
        self.forbidden, self.wronged, self.restarts, self.dns_times = [], [], [], []
        self.asked = 0
        self.interrupted = self.in_adoption = 0
        self.subjects = [self.make_subject(number) for number in range(ENVIRONMENTS)]
        print(f"seed {SEED}", flush=True)

    def make_subject(self, number):
        members = []
        if number in GIVEN:
            for letter in "ab":
                members.append(cgroups.make(f"storm-{number}{letter}"))
                self.addCleanup(cgroups.remove, cgroups.path_of(members[-1]), "cgroup2")
        subject = Subject(f"storm.{os.getpid()}-{number}", number, members)
        self.addCleanup(subject.close)
        with open(self.daemon.config, encoding="utf-8") as file:
            parent = file.read().split('"cgroup_parent": "')[1].split('"')[0]
        subject.directory = cgroups.path_of(members[0] if members else
                                            f"/{parent}/{subject.name}")
        return subject

    # Called by drivers, and by the test while they are parked.

    def park(self, for_good=False):
        """Until the agent serves again."""
        with self.condition:
            self.parked += 1
            self.condition.notify_all()
            now = self.round
            while not for_good and self.round == now and not self.ending:
                self.condition.wait()

    def send_from(self, subject):
        """Has a process inside that sends, unless there is one."""
        if subject.sender and subject.sender.poll() is None:
            return
        targets = [word for target in TARGETS for word in (target, str(PORT))]
        environment = {"SENDER_LOG": f"/proc/{os.getpid()}/fd/{subject.log.fileno()}"}
        namespace = self.lab.client
        if subject.number in BOXED:
            environment |= self.make_box(subject)
            namespace = subject.box.namespace
        subject.sender = start_in(
            subject.directory, SENDER, "plain", f"{subject.name}:{subject.number}", str(PAUSE_US),
            *targets, namespace=namespace, env={**os.environ, **environment})

    def make_box(self, subject):
        """A new one, as when a container is started anew."""
        if subject.box:
            subject.box.close()
        subject.box = Box(self.lab, subject.number)
        return {"SENDER_ROUTER": subject.box.station, "SENDER_SOURCE": subject.box.address}

    # The storm itself.

    def kill(self, drivers):
        self.daemon.kill()
        self.interrupted += sum(subject.flight is not None for subject in self.subjects)
        with self.condition:
            self.assertTrue(self.condition.wait_for(lambda: self.parked == len(drivers), 60))
        for driver in drivers:
            if driver.failure:
                raise driver.failure

    def restart(self, chance):
        """Kills it now and then while it adopts."""
        while chance.random() < 0.3:
            self.daemon.start(wait=False)
            time.sleep(chance.random() * 1.2 * statistics.median(self.restarts or [0.5]))
            self.daemon.kill()
            self.in_adoption += 1
        self.restarts.append(self.daemon.start())

    def compare(self):
        """Each call took effect or did not, and there is nothing else."""
        found = {shown["name"]: state_of(shown)
                 for shown in self.daemon.call("GET", "/v1/environments")["environments"]}
        for subject in self.subjects:
            state = found.pop(subject.name, None)
            self.assertIn(state, subject.possible(),
                          (subject.name, state, subject.state, subject.flight))
            subject.done(state)
            if state is None and not subject.members:
                self.assertFalse(os.path.exists(subject.directory), subject.directory)
            if state is None:
                self.assertFalse(os.path.exists(f"{RECORDS}/{subject.name}"))
            else:
                self.send_from(subject)
        self.assertEqual(found, {})

    def ask(self, number):
        client, began = self.clients[number % ASKING], time.monotonic()
        self.assertEqual(client("attempt", A6), {A6: "ok"}, "a learned address is forgotten")
        while client("ask", NOBODY4, WWW, "AAAA").get("addresses") != [A6]:
            self.assertLess(time.monotonic() - began, DNS_LIMIT_S, "DNS does not come back")
        self.dns_times.append(time.monotonic() - began)

    def ask_until(self, end):
        """The name stays allowed, whatever is switched and updated meanwhile."""
        while time.monotonic() < end:
            client = self.clients[self.asked % ASKING]
            self.asked += 1
            self.assertEqual(client("ask", NOBODY4, WWW, "AAAA").get("addresses"), [A6])
            self.assertEqual(client("attempt", A6), {A6: "ok"})

    def start_clients(self):
        """Asks in each of the first once, so that they have learned the address."""
        conf = tempfile.NamedTemporaryFile("w", suffix=".resolv.conf")
        self.addCleanup(conf.close)
        conf.write(f"nameserver {NOBODY4}\n")
        conf.flush()
        self.clients = []
        for subject in self.subjects[:ASKING]:
            client = Inside(self.lab, subject.directory.removeprefix(cgroups.mount2()), conf.name)
            self.addCleanup(client.close)
            self.clients.append(client)
            self.assertEqual(client("ask", NOBODY4, WWW, "AAAA").get("addresses"), [A6])

    def begin(self):
        chance = random.Random(SEED)
        drivers = [Driver(self, self.subjects[n::DRIVERS], chance.random())
                   for n in range(DRIVERS)]
        for driver in drivers:
            for subject in driver.subjects:
                driver.create(subject)
        self.start_clients()
        self.addCleanup(self.end)
        for driver in drivers:
            driver.start()
        return chance, drivers

    def end(self):
        with self.condition:
            self.ending = True
            self.condition.notify_all()

    def judge(self):
        self.forbidden += judge(self.subjects, self.capture.drain())
        self.wronged += wronged(self.subjects, time.time_ns())
        self.assertEqual((self.forbidden[:20], self.wronged[:20]), ([], []))
        self.assertEqual(self.capture.lost, 0)

    def test_storm(self):
        chance, drivers = self.begin()
        began, kills = time.monotonic(), 0
        while kills < KILLS or (not KILLS and
                                (kills < LEAST or time.monotonic() - began < LIMIT_S)):
            self.ask_until(time.monotonic() + chance.random() * CALM_S)
            self.kill(drivers)
            self.restart(chance)
            self.compare()
            self.ask(kills)
            self.judge()
            reap_orphans()
            kills += 1
            with self.condition:
                self.parked = 0
                self.round += 1
                self.condition.notify_all()
        self.kill(drivers)
        self.end()
        self.report(drivers, kills)
        self.assertLess(statistics.median(self.restarts) * 1000, RESTART_MS)
        self.leave_nothing()

    def report(self, drivers, kills):
        arrived = sorted(subject.arrived for subject in self.subjects)
        denied = sum(subject.denied for subject in self.subjects)
        frames = sum(subject.frames for subject in self.subjects)
        with open("/proc/loadavg", encoding="ascii") as file:
            load = file.read().split()[0]
        calls = sum(driver.calls for driver in drivers)
        print(f"{kills} kills and {self.in_adoption} while adopting, {calls} calls and"
              f" {self.interrupted} that were interrupted, load {load}\n"
              f"packets: {sum(arrived)} arrived, {arrived[0]} to {arrived[-1]} of an Environment;"
              f" {denied} denied; {frames} frames; forbidden: {len(self.forbidden)},"
              f" wronged: {len(self.wronged)}\n"
              f"names: {self.asked} asked besides", flush=True)
        for kind, times in (("start to serving", self.restarts), ("then DNS", self.dns_times)):
            times = sorted(times)
            print(f"{kind}: median {statistics.median(times) * 1e3:.0f} ms,"
                  f" p95 {times[len(times) * 95 // 100] * 1e3:.0f} ms,"
                  f" worst {times[-1] * 1e3:.0f} ms", flush=True)
        # Else the judge had nothing to judge.
        self.assertGreater(sum(arrived), 100 * kills)

    def leave_nothing(self):
        self.daemon.start()
        for subject in self.subjects:
            subject.begin(None)
            with contextlib.suppress(KeyError):
                self.daemon.destroy(subject.name)
            subject.done(None)
        self.assertEqual(self.daemon.stop(), 0, self.daemon.output)
        left = [name for name in os.listdir(BPFFS) if not name.endswith(".debug")]
        records = os.listdir(RECORDS) if os.path.exists(RECORDS) else []
        self.daemon.start()
        self.assertEqual((left, records), ([], []))
        self.judge()


if __name__ == "__main__":
    isolate()
    main()
