# SPDX-License-Identifier: Apache-2.0
"""Base of the network tests: a lab with a recorder and a capture for each test class."""

import ctypes
import itertools
import os
import resource
import signal
import sys
import unittest

import cgroups
from lab import B4, Lab
from phasegate import (Agent, Run, Unconfined, end_what_was_killed, reap_orphans, run_program,
                       started)
from recorder import PORT, Capture, Recorder

SKIPPED = 77
EPERM_LIMIT_US = 50_000
# More runnable tasks for each CPU than this make the machine a busy one.
BUSY = 2
PR_SET_CHILD_SUBREAPER = 36
_numbers = itertools.count(1)


def patient(limit):
    """The limit of what takes time on a machine that is not busy, as long as it takes on this one."""
    return limit * max(1, os.getloadavg()[0] / (BUSY * os.cpu_count()))


def token(label="t"):
    """A payload that no other attempt of this run uses. The ends keep t-1- apart from t-11-."""
    return f"{label}-{os.getpid()}-{next(_numbers)}-"


class LabTest(unittest.TestCase):
    """A lab, and nothing in it."""

    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.lab = cls.make_lab()
        cls.addClassCleanup(cls.lab.close)

    @classmethod
    def make_lab(cls):
        return Lab()

    def run_program(self, name, *words):
        """One of the C tests."""
        status, output = run_program(self.lab, name, *words)
        print(output, end="", flush=True)
        self.assertEqual(status, 0, output)


class NetTest(LabTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.recorder = Recorder(cls.lab)
        cls.capture = Capture(cls.lab)
        cls.unconfined = Unconfined(cls.lab)
        cls.addClassCleanup(cls.unconfined.close)

    def setUp(self):
        self.recorder.forget()
        self.fence()

    def tearDown(self):
        reap_orphans()
        self.assertEqual(self.capture.lost, 0, "the capture lost packets, so it proves nothing")

    def agent(self, *options, **more):
        """A probe under `phasegate run` that ends with the test."""
        agent = Agent(self.lab, *options, **more)
        self.addCleanup(agent.close)
        return agent

    def run_command(self, *words, **more):
        run = Run(self.lab, *words, **more)
        self.addCleanup(run.close)
        return run

    def make_cgroup(self, name):
        cgroup = cgroups.make(name)
        self.addCleanup(cgroups.remove, cgroups.path_of(cgroup), "cgroup2")
        return cgroup

    def assert_reaches(self, agent, vector, address, port, label="allowed"):
        mark = token(label)
        result = vector(agent, address, port, mark)
        about = f"{vector.__name__} {address} {port}: {result}"
        self.assertEqual(result["errno"], "", about)
        self.assertEqual(result["data"], mark, about)
        self.assertIsNotNone(self.recorder.wait(mark), about)

    def assert_denied(self, agent, vector, address, port, label="denied"):
        """EPERM at once. That nothing arrives is judged by assert_silent, after a fence."""
        result = vector(agent, address, port, token(label))
        about = f"{vector.__name__} {address} {port}: {result}"
        self.assertEqual(result["errno"], "EPERM", about)
        self.assertLess(result["us"], patient(EPERM_LIMIT_US), about)

    def fence(self):
        """Sends unconfined datagrams on the same way as all else and waits for them: what was
        sent before has arrived, or never will. Packets wait in a queue of each CPU, so each has
        its fence; and a second one, behind the answers to what waited there. Returns the packets
        that came until then."""
        cpus = os.sched_getaffinity(0)
        marks = []
        self.unconfined("socket 63 udp4")
        for cpu in (*cpus, *cpus):
            os.sched_setaffinity(self.unconfined.pid, {cpu})
            marks.append(token("fence"))
            self.unconfined(f"sendto 63 {B4} {PORT} {marks[-1]}")
            self.assertIsNotNone(self.recorder.wait(marks[-1]), "the fence did not arrive")
        os.sched_setaffinity(self.unconfined.pid, cpus)
        self.unconfined("close 63")
        packets = self.capture.drain()
        for mark in marks:
            self.assertTrue(any(mark.encode() in p.payload for p in packets))
        return packets

    def assert_silent(self, *addresses):
        """No packet of any kind came for the addresses since the capture was drained."""
        self.assertEqual([p for p in self.fence() if p.destination in addresses], [])


def main():
    """Runs the tests of the calling module; exit status 77 if all of them were skipped."""
    # Whoever starts tests in the background may have had it ignored, which children inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # The recorder keeps the connections of killed clients: more than the usual soft limit.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    finish, reaper = cgroups.start_reaper()
    started.add(reaper)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    program = unittest.main(module="__main__", exit=False, verbosity=2)
    result = program.result
    sys.stdout.flush()
    end_what_was_killed()
    finish()
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(SKIPPED if result.testsRun and len(result.skipped) == result.testsRun else 0)
