#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is under way when a harness is interrupted, a task cancelled, or a loop at its end: no
Environment stays, and the baseline is in force."""

import asyncio
import signal
import threading
import unittest

import phasegate
from both import BothTest
from fakeagent import FakeAgent


class Interrupted(BothTest):
    def test_ctrl_c_while_it_is_created(self):
        """As test_while_it_is_created for threads."""
        client = phasegate.Client(self.agent.path)
        main, life = threading.main_thread().ident, self.agent.life
        interrupted = []

        def answer(*words):
            if not interrupted:
                interrupted.append(True)
                signal.pthread_kill(main, signal.SIGINT)
                return FakeAgent.HUNG
            return life(*words)

        self.agent.answer = answer
        with self.assertRaises(KeyboardInterrupt):
            with client.environment({}, "e"):
                self.fail("it is not known")
        self.assertEqual([c[0] for c in self.agent.calls], ["POST", "POST", "DELETE"])


class Cancelled(BothTest):
    def run_cancelled(self, body, count):
        """Cancels the body when the agent has had so many requests."""
        async def main():
            task = asyncio.ensure_future(body(phasegate.AsyncClient(self.agent.path)))
            await asyncio.to_thread(self.agent.wait_for, count)
            task.cancel()
            self.release.set()
            with self.assertRaises(asyncio.CancelledError):
                await task

        asyncio.run(main())

    def setUp(self):
        super().setUp()
        self.release = threading.Event()

    def hold(self, method):
        """The agent answers requests of a method after the cancellation. It does what they ask in
        the order in which they come."""
        def answer(*words):
            said = self.agent.life(*words)
            if words[0] == method:
                self.release.wait()
            return said

        self.agent.answer = answer

    async def task(self, client):
        async with client.environment({}, "e") as environment:
            async with environment.phase("run"):
                await asyncio.sleep(1000)

    def test_body(self):
        self.run_cancelled(self.task, 2)
        self.assertEqual([c[::2] for c in self.agent.calls],
                         [("POST", None), ("PUT", "run"), ("PUT", "setup"), ("DELETE", None)])

    def test_while_it_is_created(self):
        self.hold("POST")
        self.run_cancelled(self.task, 1)
        self.assertEqual([c[0] for c in self.agent.calls], ["POST", "DELETE"])

    def test_while_it_is_switched(self):
        self.hold("PUT")
        self.run_cancelled(self.task, 2)
        self.assertEqual([c[::2] for c in self.agent.calls],
                         [("POST", None), ("PUT", "run"), ("PUT", "setup"), ("DELETE", None)])


class Ended(Cancelled):
    """asyncio.run() cancels every task when its main one is over, what is under way in the client
    included."""

    def run_cancelled(self, body, count):
        async def main():
            task = asyncio.ensure_future(body(phasegate.AsyncClient(self.agent.path)))
            await asyncio.to_thread(self.agent.wait_for, count)
            asyncio.get_running_loop().call_soon(self.release.set)
            return task

        self.assertTrue(asyncio.run(main()).cancelled())

    def assertEnded(self, *methods):
        """Requests that were broken off are made again."""
        calls = [c[0] for c in self.agent.calls]
        self.assertEqual([c for i, c in enumerate(calls) if c != calls[i - 1] or not i],
                         list(methods))
        self.assertEqual(self.agent.phase, "setup")

    def test_while_it_is_created(self):
        self.hold("POST")
        self.run_cancelled(self.task, 1)
        self.assertEnded("POST", "DELETE")

    def test_while_it_is_switched(self):
        self.hold("PUT")
        self.run_cancelled(self.task, 2)
        self.assertEnded("POST", "PUT", "DELETE")
        self.assertEqual(self.agent.calls[-2][2], "setup")

    def test_while_the_baseline_is_restored(self):
        async def task(client):
            async with client.environment({}, "e") as environment:
                async with environment.phase("run"):
                    self.hold("PUT")

        self.run_cancelled(task, 3)
        self.assertEnded("POST", "PUT", "DELETE")

    def test_while_it_is_destroyed(self):
        async def task(client):
            async with client.environment({}, "e"):
                self.hold("DELETE")

        self.run_cancelled(task, 2)
        self.assertEnded("POST", "DELETE")
        self.assertGreater(len(self.agent.requests), 2)


if __name__ == "__main__":
    unittest.main()
