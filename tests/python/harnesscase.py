# SPDX-License-Identifier: Apache-2.0
"""Base of the tests with a harness, which is a process of its own: it has the package phasegate,
and the test has the lab."""

import json
import os
import subprocess
import sys
import time

from agentcase import AgentTest
from phasegate import LIMIT, dying_with_us, started

PACKAGE = os.environ["PHASEGATE_PYTHON"]
HARNESS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "taskharness.py")


class HarnessTest(AgentTest):
    ENVIRONMENT = {}

    def harness(self, *words, stdin=subprocess.DEVNULL):
        process = subprocess.Popen(
            dying_with_us(*self.lab.client.command(sys.executable, HARNESS, *words)),
            stdin=stdin, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": PACKAGE, "PHASEGATE_SOCKET": self.daemon.socket,
                 **self.ENVIRONMENT})
        started.add(process.pid)

        def end():
            process.kill()
            process.wait()
            for file in (process.stdin, process.stdout):
                if file:
                    file.close()

        self.addCleanup(end)
        return process

    def run_tasks(self, *tasks):
        """{name: what the harness says of it}"""
        process = self.harness("tasks", *map(json.dumps, tasks))
        output, _ = process.communicate(timeout=4 * LIMIT)
        self.assertEqual(process.returncode, 0)
        results = {line["name"]: line for line in map(json.loads, output.splitlines())}
        self.assertEqual(set(results), {task["name"] for task in tasks})
        return results

    def assertSeen(self, host, mark):
        self.assertIsNotNone(self.recorder.wait(mark), f"{host} has not seen {mark}")
        self.assertEqual({a.address for a in self.recorder.arrivals(mark)}, {host})

    def assertNotSeen(self, mark):
        """Call it after a fence."""
        self.assertEqual(self.recorder.arrivals(mark), [])

    def assertNothingLeft(self):
        self.assertEqual(self.daemon.call("GET", "/v1/environments")["environments"], [])

    def path(self, name):
        return f"{self.daemon.directory.name}/{name}"

    @staticmethod
    def attempts(path):
        return os.path.getsize(path) if os.path.exists(path) else 0

    def wait_counted(self, path, more=10):
        """Until a sender has tried so many times more."""
        first = self.attempts(path)
        deadline = time.monotonic() + LIMIT
        while self.attempts(path) < first + more:
            self.assertLess(time.monotonic(), deadline, "the sender is not at work")
            time.sleep(0.01)

    def event(self, cursor, kind, name):
        """Waits for it."""
        while True:
            lines = self.daemon.call("GET", f"/v1/events?cursor={cursor}&follow=1"
                                     f"&environment={name}").body
            cursor = lines[-1]["cursor"]
            for line in lines:
                if line["event"] == kind:
                    return line
