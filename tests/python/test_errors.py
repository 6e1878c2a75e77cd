#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A class for each code of the API, raised by both clients; and what is no reply at all."""

import os
import pickle
import re
import threading
import time
import unittest

import phasegate
from both import BothTest
from fakeagent import DETAIL, FakeAgent, problem
from phasegate.errors import ApiError

SOURCES = os.environ["PHASEGATE_SOURCE"]


def listed():
    """{code: HTTP status} of the agent's one list."""
    with open(f"{SOURCES}/user/agent/error_codes.h", encoding="utf-8") as file:
        rows = re.findall(r'X\(\w+, (\d+), "(\w+)"', file.read())
    return {code: int(status) for status, code in rows}


class Lists(unittest.TestCase):
    def test_same_codes(self):
        ours = {code: cls.status for code, cls in ApiError.classes.items()}
        self.assertEqual(ours, listed())
        self.assertGreater(len(ours), 30)

    def test_names_of_classes(self):
        for code, cls in ApiError.classes.items():
            self.assertEqual(cls.__name__,
                             "".join(part.title() for part in code.split("_")) + "Error")
            self.assertIs(getattr(phasegate, cls.__name__), cls)

    def test_everything_is_exported(self):
        made = {name for name, value in vars(phasegate.errors).items()
                if isinstance(value, type) and issubclass(value, phasegate.PhasegateError)}
        self.assertEqual(made, set(phasegate.errors.__all__))


class Raised(BothTest):
    def test_every_code(self):
        for client in self.each():
            for code, cls in ApiError.classes.items():
                self.agent.answer = lambda *_, c=code, s=cls.status: (
                    s, problem(c, object="/name"))
                with self.assertRaises(cls) as caught:
                    client.create("e", {})
                error = caught.exception
                self.assertIs(type(error), cls)
                self.assertEqual((error.api_code, error.http_status, error.message, error.object,
                                  error.next_step), (code, cls.status, "no", "/name", "wait"))
                self.assertIn(code, str(error))
                again = pickle.loads(pickle.dumps(error))
                self.assertEqual((type(again), str(again)), (cls, str(error)))

    def test_code_of_a_newer_agent(self):
        for client in self.each():
            self.agent.answer = lambda *_: (418, problem("teapot"))
            with self.assertRaises(ApiError) as caught:
                client.capabilities()
            self.assertIs(type(caught.exception), ApiError)
            self.assertEqual(caught.exception.api_code, "teapot")

    def test_details(self):
        survivor = {"pid": 3, "command": "x", "cgroup": None}
        diagnostic = {"code": "c", "message": "m", "object": "/o", "value": "v", "hint": "h"}
        for client in self.each():
            def fail(status, code, **more):
                self.agent.answer = lambda *_: (status, problem(code, **more))
                with self.assertRaises(ApiError.classes[code]) as caught:
                    client.set_phase("e", "run")
                return caught.exception

            error = fail(409, "generation_mismatch", phase="run", denied=True, generation=9)
            self.assertEqual((error.phase, error.denied, error.generation), ("run", True, 9))
            error = fail(409, "survivors_present", survivors=[survivor])
            self.assertEqual((error.survivors[0].pid, error.survivors[0].command), (3, "x"))
            error = fail(422, "policy_invalid", errors=[diagnostic], warnings=[])
            self.assertEqual((error.errors[0].hint, error.warnings), ("h", ()))
            self.assertIn("\n  /o: m: 'v'; write 'h'", str(error))
            error = fail(422, "policy_invalid", errors=7 * [diagnostic], warnings=[])
            self.assertRegex(str(error), r"(\n  /o.*){5}\n  and 2 more$")
            self.assertNotIn("\n", str(fail(422, "policy_invalid", errors=[1], warnings=[])))
            self.assertEqual(fail(410, "cursor_expired", object="77").oldest, 77)

    def test_no_reply_of_this_api(self):
        for client in self.each():
            for status, reply in ((200, "{"), (200, "[]"), (200, "{}"), (500, "{}"), (502, "<p>"),
                                  (200, {**DETAIL, "generation": "1"}),
                                  (200, {**DETAIL, "denied": 1}), (200, {**DETAIL, "dns": []})):
                self.agent.answer = lambda *_, s=status, r=reply: (s, r)
                with self.assertRaises(phasegate.ProtocolError):
                    client.show("e")

    def test_fields_of_a_newer_agent_are_left_out(self):
        for client in self.each():
            self.agent.answer = lambda *_: (200, {**DETAIL, "more": 1})
            self.assertEqual(client.show("e").id, 7)


class Absent(BothTest):
    def test_no_agent(self):
        self.agent.stop()
        for client in self.each():
            began = time.monotonic()
            with self.assertRaises(phasegate.AgentUnavailableError) as caught:
                client.capabilities()
            self.assertIn(self.agent.path, str(caught.exception))
            self.assertLess(time.monotonic() - began, 1)

    def test_waits_for_as_long_as_it_is_told(self):
        self.agent.stop()
        for client in self.each(restart=0.3):
            began = time.monotonic()
            with self.assertRaises(phasegate.AgentUnavailableError):
                client.set_phase("e", "run")
            self.assertGreaterEqual(time.monotonic() - began, 0.3)

    def test_path_that_cannot_be_is_said_at_once(self):
        for client in self.each(restart=60):
            client.settings.__dict__["socket"] = self.agent.path + "/x"
            with self.assertRaises(phasegate.AgentUnavailableError):
                client.capabilities()

    def test_restart(self):
        """Whatever it is asked meanwhile waits until it serves, and is done once."""
        for client in self.each(restart=30):
            self.agent.stop()
            timer = threading.Timer(0.3, self.agent.start)
            timer.start()
            self.assertEqual(client.set_phase("e", "run").phase, "run")
            timer.join()
            self.assertEqual(len(self.agent.requests), 1)

    def test_stopping_is_waited_out(self):
        for client in self.each(restart=30):
            replies = [(503, problem("stopping"))] * 3
            life = self.agent.life
            self.agent.answer = lambda *words: replies.pop() if replies else life(*words)
            self.assertTrue(client.set_phase("e", "run").changed)
            self.assertEqual(len(self.agent.requests), 4)

    def test_too_many_clients_are_waited_for(self):
        """A harness with many tasks is not ended by their number."""
        for client in self.each(restart=30):
            replies = [(503, problem("too_many_clients"))] * 3
            life = self.agent.life
            self.agent.answer = lambda *words: replies.pop() if replies else life(*words)
            self.assertTrue(client.set_phase("e", "run").changed)
            self.assertEqual(len(self.agent.requests), 4)

    def test_lost_reply(self):
        """What only reads is asked again; what may have taken effect is not."""
        for client in self.each(restart=30):
            replies = [FakeAgent.LOST] * 2
            life = self.agent.life
            self.agent.answer = lambda *words: replies.pop() if replies else life(*words)
            self.assertEqual(client.show("e").name, "e")
            self.assertEqual(len(self.agent.requests), 3)
            self.agent.answer = lambda *_: FakeAgent.LOST
            for call in (lambda: client.set_phase("e", "run"),
                         lambda: client.update_policy("e", {}), lambda: client.destroy("e")):
                self.agent.requests.clear()
                with self.assertRaises(phasegate.ConnectionLostError):
                    call()
                self.assertEqual(len(self.agent.requests), 1)

    def test_timeout(self):
        for client in self.each(restart=30, timeout=0.2):
            self.agent.answer = lambda *_: FakeAgent.HUNG
            with self.assertRaises(phasegate.ReplyTimeoutError):
                client.show("e")
            self.assertEqual(len(self.agent.requests), 1)


if __name__ == "__main__":
    unittest.main()
