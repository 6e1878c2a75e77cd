# SPDX-License-Identifier: Apache-2.0
"""SIGKILL of `phasegate run` at any moment: the tree stays confined or is dead, never open, and
the next start removes what was left.

PHASEGATE_KILLS: how many at random moments; 100 without it, and 40 in a build that is also stopped
at each step."""

import os
import random
import time
import unittest

import cgroups
import steps
from harness import NetTest, main, token
from lab import A4, D4, D6
from phasegate import PROBE, PUBLIC, allowlist, policy
from recorder import PORT

KILLS = int(os.environ.get("PHASEGATE_KILLS", "40" if steps.AVAILABLE else "100"))
AT_ONCE = 3
TEXT = policy(setup=PUBLIC, run=allowlist(A4), verifier=PUBLIC)
RECORDS = "/run/phasegate"


def owner_lives(name):
    """Whether the process of the Environment (run-PID-RANDOM) is at work; ours are all dead."""
    try:
        with open(f"/proc/{name.split('-')[1]}/status", encoding="utf-8") as file:
            return "State:\tZ" not in file.read()
    except (OSError, IndexError):
        return False


def left_behind():
    """Cgroups and records of runs without an owner. Those of other tests may end while they
    are looked at, so what counts is what stays. What an agent keeps is not meant."""
    tops = (cgroups.path_of("/phasegate"), RECORDS)
    deadline = time.monotonic() + 20
    found = None
    while found != set() and time.monotonic() < deadline:
        now = {f"{top}/{name}" for top in tops if os.path.isdir(top) for name in os.listdir(top)
               if name.startswith("run-") and os.path.isdir(f"{top}/{name}") and
               not owner_lives(name)}
        found = now if found is None else found & now
    return found


def alive(mark):
    """Processes that have mark in their command line, but for zombies."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if mark.encode() in file.read():
                    found.append(int(pid))
        except OSError:
            pass
    return found


class Kill(NetTest):
    def setUp(self):
        super().setUp()
        self.start_clean()
        self.mark = token("flood")

    def start_clean(self):
        run = self.run_command("--policy", TEXT, "--", "true")
        self.assertEqual(run.finish()[0], 0, run.stderr)

    def start(self, three_phases, number=0, **more):
        """The command and what it leaves behind send to the denied D and to the allowed A. Of three
        phases only the middle one does, so that a tree in the wrong phase would be seen."""
        where = f"{self.mark}{number}- {D4} {PORT} {D6} {PORT} {A4} {PORT}"
        if three_phases:
            words = ("--setup", "true", "--run", f"exec {PROBE} 'leave {where}' 'flood {where}'",
                     "--verify", "true")
        else:
            words = ("--", PROBE, f"leave {where}", f"flood {where}")
        return self.run_command("--policy", TEXT, *words, **more)

    def assert_closed(self):
        self.assert_silent(D4, D6)

    def assert_next_start_cleans_up(self):
        self.start_clean()
        self.assertEqual(alive(self.mark), [])
        self.assertEqual(left_behind(), set())
        self.fence()
        self.recorder.forget()
        self.fence()
        self.assertEqual(self.recorder.arrivals(self.mark), [])

    def measure_start(self):
        """Seconds until the command's first packet."""
        started = time.monotonic()
        run = self.start(False)
        self.assertIsNotNone(self.recorder.wait(self.mark, limit=30), run.stderr)
        elapsed = time.monotonic() - started
        run.close()
        self.assert_closed()
        return elapsed

    def test_random_moments(self):
        """Some at a time, since half of a start is waiting. The time within which the kill comes
        follows the load of the machine, so that about half of the kills hit the start and half
        the run. The moment is the point, so here a test may sleep."""
        span = 2 * self.measure_start()
        seed = int.from_bytes(os.urandom(4), "big")
        source = random.Random(seed)
        waiting, reached = [], 0
        for number in range(KILLS + AT_ONCE):
            if len(waiting) == AT_ONCE or number >= KILLS:
                moment, run, mark = min(waiting, key=lambda one: one[0])
                waiting.remove((moment, run, mark))
                time.sleep(max(0, moment - time.monotonic()))
                run.close()
                self.assert_closed()
                sent = bool(self.recorder.arrivals(mark))
                reached += sent
                span *= 0.95 if sent else 1.05
            if number < KILLS:
                moment = time.monotonic() + source.uniform(0, span)
                waiting.append((moment, self.start(number % 2 == 1, number),
                                f"{self.mark}{number}-"))
        self.assert_next_start_cleans_up()
        print(f"{KILLS} kills within {span * 1000:.0f} ms of the start, seed {seed}; "
              f"the command had begun to send in {reached}", flush=True)
        self.assertGreater(reached, KILLS // 20)
        self.assertLess(reached, KILLS)

    @unittest.skipUnless(steps.AVAILABLE, "built without PHASEGATE_TEST_HOOKS")
    def test_between_the_steps_of_the_start(self):
        for step in steps.names():
            for three_phases in (False, True):
                with self.subTest(step=step, three_phases=three_phases):
                    run = self.start(three_phases, environment=steps.stop_at(step))
                    stopped = run.wait_stopped()
                    self.assertTrue(stopped, f"did not stop: {run.stderr}")
                    run.close()
                    self.assert_closed()
                    self.assert_next_start_cleans_up()


if __name__ == "__main__":
    main()
