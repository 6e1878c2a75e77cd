#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What both clients send, and what their context managers do however the body ends."""

import asyncio
import threading
import unittest

import phasegate
from both import BothTest
from fakeagent import CHANGE, DETAIL, ENVIRONMENT, FakeAgent, problem
from phasegate.provider import Container, Provider, Task
from phasegate.sidecar import Sidecar


class Calls(BothTest):
    def sent(self, reply, call):
        self.agent.answer = lambda *_: (200, reply)
        self.agent.requests.clear()
        result = call()
        return result, self.agent.requests[0]

    def test_requests(self):
        for client in self.each():
            found, sent = self.sent({"environments": [ENVIRONMENT]}, client.environments)
            self.assertEqual((found[0].name, sent), ("e", ("GET", "/v1/environments", None)))
            _, sent = self.sent(DETAIL, lambda: client.show("a/b ä?"))
            self.assertEqual(sent[1], "/v1/environments/a%2Fb%20%C3%A4%3F")
            _, sent = self.sent(CHANGE, lambda: client.set_phase(
                "e", "run", expected_generation=3, survivors="freeze", lease=5, then="deny"))
            self.assertEqual(sent, ("PUT", "/v1/environments/e/phase", {
                "phase": "run", "expected_generation": 3, "survivors": "freeze",
                "lease": {"seconds": 5, "then": "deny"}}))
            _, sent = self.sent(DETAIL, lambda: client.create(
                "e", [{"network_policy": None}], members=[{"pid": 3}], allow={"run": ("h",)},
                phase="run", verifier="new", dns={"floor_s": 1}, attach=True))
            self.assertEqual(sent, ("POST", "/v1/environments", {
                "name": "e", "policy": [{"network_policy": None}], "members": [{"pid": 3}],
                "allow": {"run": ["h"]}, "phase": "run", "verifier": "new",
                "dns": {"floor_s": 1}, "attach": True}))
            _, sent = self.sent({"ok": True, "warnings": []}, lambda: client.validate({}))
            self.assertEqual(sent, ("POST", "/v1/validate", {"policy": {}}))
            probe = {"target": "h:1", "address": None, "result": "inconclusive",
                     "wrong": False, "reason": "r"}
            found, sent = self.sent({"name": "e", "phase": "run", "generation": 1, "allowed": None,
                                     "result": "inconclusive", "blocked": probe,
                                     "phases": {"setup": {"allowed": None, "blocked": None}},
                                     "vectors": []},
                                    lambda: client.verify("e", blocked="h:1",
                                                          without=("vsock",)))
            self.assertFalse(found.enforced)
            self.assertEqual(sent, ("POST", "/v1/environments/e/verify",
                                    {"blocked": "h:1", "without": ["vsock"]}))
            _, sent = self.sent({"name": "e", "destroyed": True},
                                lambda: client.destroy("e", "release"))
            self.assertEqual(sent[:2], ("DELETE", "/v1/environments/e?processes=release"))

    def test_events(self):
        lines = [{"event": "denied", "cursor": 4, "time": "t", "environment": "e", "port": 80},
                 {"event": "cursor", "cursor": 5}]
        for client in self.each():
            page, sent = self.sent(lines, lambda: client.events(3, environment="e", follow=True))
            self.assertEqual(sent[1], "/v1/events?cursor=3&environment=e&follow=1")
            self.assertEqual((page.cursor, page.events[0].event, page.events[0].more),
                             (5, "denied", {"port": 80}))

    def test_then_without_a_lease(self):
        """Nothing is sent, nor restored."""
        for client in self.each():
            environment = client.create("e", {})
            with self.assertRaises(ValueError):
                client.set_phase("e", "run", then="deny")
            with self.assertRaises(ValueError):
                with environment.phase("run", then="deny"):
                    self.fail("it is not in force")
            self.assertEqual(len(self.agent.requests), 1)

    def test_require(self):
        for client in self.each():
            self.agent.answer = lambda *_: (200, {})
            with self.assertRaises(phasegate.ProtocolError):
                client.require("hostnames")


class Managers(BothTest):
    def test_environment(self):
        for client in self.each():
            with client.environment({}, "e") as environment:
                self.assertEqual((environment.name, environment.generation), ("e", 1))
            self.assertEqual(self.agent.requests[-1][:2],
                             ("DELETE", "/v1/environments/e?processes=kill"))
            with self.assertRaises(KeyError):
                with client.environment({}, "e"):
                    raise KeyError
            self.assertEqual([method for method, *_ in self.agent.requests],
                             ["POST", "DELETE"] * 2)

    def test_environment_that_a_dead_harness_has_left(self):
        for client in self.each():
            for wanted, words in (("setup", {}), ("run", {"phase": "run"})):
                self.agent.phase = "verifier"
                with client.environment({}, "e", **words) as environment:
                    self.assertEqual(environment.phase_in_force, wanted)
                    self.assertEqual(self.agent.phase, wanted)
            life, self.agent.phase = self.agent.life, "setup"
            self.agent.answer = lambda *words: (200, {**DETAIL, "denied": True}) if (
                words[0] == "POST") else life(*words)
            self.agent.requests.clear()
            with client.environment({}, "e"):
                self.assertEqual(self.agent.calls[-1], ("PUT", "phase", "setup"))
            # Whatever happens, it is destroyed.
            self.agent.answer = lambda *words: (
                (500, problem("enforcement_failed")) if words[0] == "PUT" else
                (200, {**DETAIL, "denied": True}) if words[0] == "POST" else life(*words))
            with self.assertRaises(phasegate.EnforcementFailedError):
                with client.environment({}, "e"):
                    self.fail("its phase is not in force")
            self.assertEqual(self.agent.requests[-1][0], "DELETE")

    def test_environment_that_is_gone_already(self):
        for client in self.each():
            with client.environment({}, "e"):
                self.agent.answer = lambda *_: (404, problem("environment_not_found"))

    def test_destroyed_although_the_reply_is_lost(self):
        for client in self.each(restart=10):
            replies = [(404, problem("environment_not_found")), FakeAgent.LOST]
            with client.environment({}, "e"):
                self.agent.answer = lambda *_: replies.pop()
            self.assertEqual(replies, [])

    def test_environment_of_which_no_reply_tells(self):
        """Destroyed if the name is its own, so that nobody else's can be meant."""
        for client in self.each(timeout=0.2):
            for name, calls in ((None, ["POST", "DELETE"]), ("e", ["POST"])):
                self.agent.requests.clear()
                self.agent.answer = lambda *words: (
                    FakeAgent.HUNG if words[0] == "POST" else self.agent.life(*words))
                with self.assertRaises(phasegate.ReplyTimeoutError):
                    with client.environment({}, name):
                        self.fail("it is not known")
                self.assertEqual([call[0] for call in self.agent.calls], calls)

    def test_phase(self):
        for client in self.each():
            environment = client.create("e", {})
            with environment.phase("run") as guard:
                self.assertEqual(guard.change.phase, "run")
                self.assertEqual(self.agent.phase, "run")
            with self.assertRaises(KeyError):
                with environment.phase("verifier", survivors="freeze", baseline="run"):
                    raise KeyError
            self.assertEqual([call[2] for call in self.agent.calls[1:]],
                             ["run", "setup", "verifier", "run"])
            self.assertEqual([body["survivors"] for _, _, body in self.agent.requests[1:]],
                             ["kill", "kill", "freeze", "freeze"])
            self.assertEqual(environment.generation, 5)

    def test_refused_phase_restores_nothing(self):
        for client in self.each():
            environment = client.create("e", {})
            self.agent.answer = lambda *_: (409, problem("verifier_on_host"))
            with self.assertRaises(phasegate.VerifierOnHostError):
                with environment.phase("verifier"):
                    self.fail("it is not in force")
            self.assertEqual(len(self.agent.requests), 2)

    def test_baseline_although_the_reply_to_the_switch_is_lost(self):
        for client in self.each(restart=10):
            environment = client.create("e", {})
            life, lost = self.agent.life, [True]

            def answer(*words):
                reply = life(*words)
                return FakeAgent.LOST if lost and lost.pop() else reply

            self.agent.answer = answer
            with self.assertRaises(phasegate.ConnectionLostError):
                with environment.phase("run"):
                    self.fail("it is not known")
            self.assertEqual(self.agent.phase, "setup")

    def test_baseline_although_the_reply_to_it_is_lost(self):
        for client in self.each(restart=10):
            environment = client.create("e", {})
            replies = [FakeAgent.LOST] * 2
            life = self.agent.life
            with environment.phase("run"):
                self.agent.answer = lambda *words: replies.pop() if replies else life(*words)
            self.assertEqual((self.agent.phase, environment.phase_in_force), ("setup", "setup"))

    def test_baseline_that_cannot_be_restored(self):
        for client in self.each():
            environment = client.create("e", {})
            with self.assertRaises(phasegate.SurvivorsPresentError):
                with environment.phase("run", survivors="refuse"):
                    self.agent.answer = lambda *_: (409, problem("survivors_present",
                                                                 survivors=[]))
            self.agent.answer = self.agent.life
            with self.assertRaises(phasegate.EnforcementFailedError) as caught:
                with environment.phase("run"):
                    self.agent.answer = lambda *_: (500, problem("enforcement_failed"))
                    raise KeyError
            self.assertIsInstance(caught.exception.__context__, KeyError)
            # What interrupts the harness is not replaced by less.
            self.agent.answer = self.agent.life
            with self.assertLogs("phasegate", "ERROR"), self.assertRaises(KeyboardInterrupt):
                with environment.phase("run"):
                    self.agent.answer = lambda *_: (500, problem("enforcement_failed"))
                    raise KeyboardInterrupt


class Leases(BothTest):
    def renewals(self):
        return [body for _, target, body in self.agent.requests
                if target.endswith("/phase") and "expected_generation" in body]

    def test_renewed_until_the_end(self):
        for client in self.each():
            environment = client.create("e", {})
            with environment.phase("run", lease=1, then="deny"):
                self.pause(client, lambda: len(self.renewals()) >= 2)
            count = len(self.agent.requests)
            for body in self.renewals():
                self.assertEqual(body, {"phase": "run", "expected_generation": 2,
                                        "survivors": "kill",
                                        "lease": {"seconds": 1, "then": "deny"}})
            # The baseline has none, and is the last.
            self.assertEqual(self.agent.requests[-1][2], {"phase": "setup", "survivors": "kill"})
            self.assertEqual(len(self.agent.requests), count)

    def test_not_renewed_unless_wanted(self):
        for client in self.each():
            environment = client.create("e", {})
            with environment.phase("run", lease=1, renew=False) as guard:
                self.assertEqual(self.renewals(), [])
                guard.renew()
                self.assertEqual(len(self.renewals()), 1)

    def test_what_has_fallen_back_is_not_opened_again(self):
        for client in self.each():
            environment = client.create("e", {})
            with self.assertRaises(phasegate.LeaseLostError):
                with environment.phase("run", lease=1) as guard:
                    self.agent.generation, self.agent.phase = 3, "verifier"
                    self.pause(client, lambda: guard.lost)
                    self.assertEqual(self.agent.phase, "verifier")
                    with self.assertRaises(phasegate.LeaseLostError):
                        guard.check()
            self.assertEqual(len(self.renewals()), 1)
            self.assertEqual(self.agent.phase, "setup")

    def test_what_we_have_ended_is_not_opened_again(self):
        """A switch in the body is the end of the phase, and its generation is known."""
        for client in self.each():
            environment = client.create("e", {})
            with self.assertRaises(phasegate.LeaseLostError):
                with environment.phase("run", lease=1) as guard:
                    environment.set_phase("verifier")
                    self.pause(client, lambda: guard.lost)
                    self.assertEqual(self.agent.phase, "verifier")
            self.assertEqual(self.renewals(), [])

    def test_what_is_looked_at_is_not_ours(self):
        """Everything is denied since the lease was over, in the same phase."""
        for client in self.each():
            environment = client.create("e", {})
            with self.assertRaises(phasegate.LeaseLostError):
                with environment.phase("run", lease=1) as guard:
                    self.agent.generation += 1
                    self.assertEqual(environment.refresh().generation, 3)
                    self.pause(client, lambda: guard.lost)
            self.assertIsInstance(guard.lost.__cause__, phasegate.GenerationMismatchError)

    def update(self, environment, generation):
        """Another policy."""
        change = {k: v for k, v in CHANGE.items()
                  if k not in ("widened", "survivors_choice", "survivors", "lease")}
        self.agent.answer = lambda *_: (200, {**change, "generation": generation})
        environment.update_policy({})
        self.agent.generation, self.agent.answer = generation, self.agent.life

    def test_an_update_is_ours(self):
        for client in self.each():
            environment = client.create("e", {})
            with environment.phase("run", lease=1) as guard:
                self.update(environment, 3)
                self.pause(client, self.renewals)
                self.assertIsNone(guard.lost)

    def test_an_update_does_not_hide_what_was_before_it(self):
        for client in self.each():
            environment = client.create("e", {})
            with self.assertRaises(phasegate.LeaseLostError):
                with environment.phase("run", lease=1) as guard:
                    self.update(environment, 4)
                    self.pause(client, lambda: guard.lost)

    def test_agent_that_is_away_for_a_moment(self):
        for client in self.each():
            environment = client.create("e", {})
            with environment.phase("run", lease=2) as guard:
                self.agent.stop()
                self.pause(client, lambda: guard._renewal.attempts >= 1)
                self.agent.start()
                self.pause(client, self.renewals)
                self.assertIsNone(guard.lost)


class Many(BothTest):
    def test_full_backlog(self):
        """More at once than may wait to be accepted: each is served in the end, and once."""
        self.agent.stop()
        self.agent.backlog = 1
        self.agent.start()

        async def main():
            client = phasegate.AsyncClient(self.agent.path, restart=60, interval=0.01)
            return await asyncio.gather(*(client.set_phase("e", "run") for _ in range(200)))

        self.assertEqual(len(asyncio.run(main())), 200)
        self.assertEqual(len(self.agent.requests), 200)


    def test_threads_share_a_client_and_an_environment(self):
        """What it knows of the generation is what the last switch has said."""
        environment = phasegate.Client(self.agent.path).create("e", {})

        def switch():
            for phase in ("run", "setup") * 10:
                environment.set_phase(phase)

        threads = [threading.Thread(target=switch) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(self.agent.requests), 161)
        self.assertEqual((environment.generation, environment.phase_in_force),
                         (self.agent.generation, self.agent.phase))


class Adapters(BothTest):
    def test_sidecar(self):
        sidecar = Sidecar(phasegate.Client(self.agent.path, restart=0), name="e",
                          members=[{"container": "c"}])
        with self.assertRaises(RuntimeError):
            sidecar.set_policy("public")
        sidecar.start()
        self.assertEqual(self.agent.requests[-1][2], {
            "name": "e", "policy": {"network_policy": "no-network"},
            "members": [{"container": "c"}]})
        self.assertEqual((sidecar.variables, sidecar.cgroup_parent), ({}, "/phasegate/e"))
        self.agent.answer = lambda *_: (200, {**CHANGE})
        sidecar.set_policy("allowlist", ["example.com"])
        self.assertEqual(self.agent.requests[-1][1:], ("/v1/environments/e/policy", {
            "policy": {"network_policy": {"network_mode": "allowlist",
                                          "allowed_hosts": ["example.com"]}}}))
        with self.assertRaises(ValueError):
            sidecar.set_policy("public", ["example.com"])
        self.agent.answer = self.agent.life
        sidecar.stop()
        sidecar.stop()
        self.assertEqual([call[0] for call in self.agent.calls], ["POST", "PUT", "DELETE"])

    def test_provider_refuses_to_run_weaker(self):
        lacks = {"modes": ["public"], "verifier": ["host", "same"], "leases": True,
                 "phase_switching": True}
        provider = Provider(phasegate.AsyncClient(self.agent.path, restart=0))
        self.agent.answer = lambda *_: (200, {
            "version": "1", "abi": 1, "kernel": "6", "phases": [], "hostnames": True,
            "wildcards": True, "addresses": {}, "policy_update": True,
            "connection_closing": True, "events": True, "survivors": [], "members": [],
            "runtimes": [], "guards": {}, "limits": {},
            "operator": {"never_allow": [], "host_ports": None, "exposures": {}}, **lacks})
        for task in (Task(["true"], run_network_policy="no-network"),
                     Task(["true"], verifier="new"),
                     Task(["true"], run_network_policy=phasegate.allowlist("x")),
                     Task(["true"], verifier="host", verifier_network_policy="public")):
            with self.assertRaises(phasegate.UnsupportedError):
                asyncio.run(provider.execute(task))
        asyncio.run(provider.check(Task(["true"], network_policy="public")))
        with self.assertRaises(ValueError):
            asyncio.run(provider.check(Task(["true"], verifier="new", name="n" * 60)))

    def test_provider_of_a_container(self):
        provider = Provider(phasegate.AsyncClient(self.agent.path, restart=0))

        async def ask():
            task = Task(["true"], container=Container("c", "podman"), name="e",
                        run_network_policy="no-network")
            async with provider.workspace(task, task.name, task.container) as workspace:
                return workspace._command(["make", "test"])

        self.assertEqual(asyncio.run(ask()), (["podman", "exec", "c", "make", "test"], None))
        self.assertEqual(self.agent.requests[0][2], {
            "name": "e", "policy": {"run_network_policy": "no-network"}, "phase": "setup",
            "members": [{"container": "c", "runtime": "podman"}], "verifier": "same"})


if __name__ == "__main__":
    unittest.main()
