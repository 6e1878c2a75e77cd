# SPDX-License-Identifier: Apache-2.0
"""One test for both clients: the asyncio one, driven call by call, looks like the other."""

import asyncio
import contextlib
import unittest

from fakeagent import FakeAgent
from phasegate import AsyncClient, Client


class Driver:
    """Runs every coroutine of the object behind it to its end."""

    def __init__(self, loop, behind):
        self.__dict__.update(loop=loop, behind=behind)

    def _wrap(self, value):
        if asyncio.iscoroutine(value):
            value = self.loop.run_until_complete(value)
        if hasattr(value, "__aenter__"):
            return self._managed(value)
        if type(value).__name__.startswith("Async"):
            return Driver(self.loop, value)
        return value

    @contextlib.contextmanager
    def _managed(self, manager):
        run = self.loop.run_until_complete
        entered = run(manager.__aenter__())
        try:
            yield self._wrap(entered)
        except BaseException as error:
            if not run(manager.__aexit__(type(error), error, error.__traceback__)):
                raise
        else:
            run(manager.__aexit__(None, None, None))

    def __getattr__(self, name):
        value = getattr(self.behind, name)
        if not callable(value):
            return self._wrap(value)
        return lambda *words, **more: self._wrap(value(*words, **more))


class BothTest(unittest.TestCase):
    def setUp(self):
        self.agent = FakeAgent().start()
        self.addCleanup(self.agent.close)
        self.loop = asyncio.new_event_loop()
        self.addCleanup(self.loop.close)

    def clients(self, **settings):
        settings = {"timeout": 10, "restart": 0, "interval": 0.01, **settings}
        yield Client(self.agent.path, **settings)
        yield Driver(self.loop, AsyncClient(self.agent.path, **settings))

    def each(self, **settings):
        """The clients, each in a subtest with a fresh agent."""
        for client in self.clients(**settings):
            kind = "asyncio" if isinstance(client, Driver) else "threads"
            with self.subTest(client=kind):
                self.agent.requests.clear()
                self.agent.generation, self.agent.phase = 1, "setup"
                self.agent.answer = self.agent.life
                yield client

    def pause(self, client, condition):
        """Until the condition holds, while the client's own tasks go on."""
        async def wait():
            for _ in range(1000):
                if condition():
                    return
                await asyncio.sleep(0.01)
            raise AssertionError("does not come")

        if isinstance(client, Driver):
            self.loop.run_until_complete(wait())
        else:
            asyncio.run(wait())
