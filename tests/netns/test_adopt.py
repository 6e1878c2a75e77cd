# SPDX-License-Identifier: Apache-2.0
"""The owner of a kept Environment is killed between any two steps of what it does, and the next one
takes over: what is denied stays denied throughout, what the phase in force allows stays allowed,
phase and generation are those that the caller was told, or the next."""

import os
import unittest

import cgroups
import steps
from dnslab import NOBODY4, DnsTest
from harness import main
from keeper import BPFFS, PARENT, RECORDS, Inside, Keeper, isolate
from lab import A4, A6, B4, B6, D4
from phasegate import NO_NETWORK, allowlist, policy

WWW, OTHER, SECRET = "www.example.com", "other.example.com", "secret.example.net"
# A in setup, B in the run, D never; and a name of A's and B's network.
BEFORE = policy(setup=allowlist(A4, WWW), run=allowlist(B4), verifier=NO_NETWORK)
AFTER = policy(setup=allowlist(B4, WWW, OTHER), run=allowlist(A4), verifier=NO_NETWORK)
LEARNED, MORE = A6, B6


class AdoptTest(DnsTest):
    def setUp(self):
        super().setUp()
        self.server.host(WWW, LEARNED)
        self.server.host(OTHER, MORE)
        self.server.host(SECRET, D4)
        self.name = f"kept-{os.getpid()}"
        self.addCleanup(self.clean)

    def clean(self):
        """Whatever the test has left."""
        keeper = Keeper(self.lab)
        answer = keeper.answer()
        assert answer["ok"], answer
        for name in keeper("kept")["names"]:
            keeper("adopt", name)
            keeper("destroy", "kill")
        self.assertEqual(keeper.finish()[0], 0, keeper.stderr)
        keeper.close()
        self.assert_nothing_left_behind()

    def assert_nothing_left_behind(self):
        self.assertFalse(os.path.exists(cgroups.path_of("/" + PARENT)))
        pins = [name for name in os.listdir(BPFFS) if not name.endswith(".debug")]
        records = os.listdir(RECORDS) if os.path.exists(RECORDS) else []
        self.assertEqual((pins, records), ([], []))

    def keeper(self, stop_at=None, ready=True, **options):
        keeper = Keeper(self.lab, stop_at, **options)
        self.addCleanup(keeper.close)
        if ready:
            answer = keeper.answer()
            self.assertTrue(answer["ok"], (answer, keeper.stderr))
        return keeper

    def create(self, keeper, *members, text=BEFORE, phase="setup", options="-"):
        return keeper("create", self.name, text, phase, options, *members)

    def inside(self, state, *before):
        inside = Inside(self.lab, state["member"], self.conf, before)
        self.addCleanup(inside.close)
        return inside

    def reachable(self, inside):
        """Which of the addresses a connect() gets to, the others being refused at once."""
        found = inside("attempt", A4, B4, D4)
        self.assertLessEqual(set(found.values()), {"ok", "EPERM"}, found)
        return {address for address, outcome in found.items() if outcome == "ok"}

    def stop(self, keeper, *words):
        """Until it stops itself in the middle of it, or has done it."""
        keeper.post(*words)
        return keeper.wait_stopped()

    def assert_resolves_again(self, inside):
        self.wait_for(lambda: inside("ask", NOBODY4, WWW, "AAAA").get("addresses") == [LEARNED],
                      about="DNS does not come back")
        self.assertEqual(inside("ask", NOBODY4, SECRET).get("rcode"), "NXDOMAIN")


class Adopt(AdoptTest):
    def test_leave_and_adopt(self):
        keeper = self.keeper()
        told = self.create(keeper)
        inside = self.inside(told)
        self.assert_resolves(inside, WWW, LEARNED)
        self.assertEqual(self.reachable(inside), {A4})
        keeper("note", 'a "note"\\')
        keeper("leave")
        self.assertEqual(keeper.finish()[0], 0)
        self.assertEqual(self.reachable(inside), {A4})
        heir = self.keeper()
        self.assertEqual(heir("kept")["names"], [self.name])
        self.assertEqual(heir("adopt", self.name), {**told, "note": 'a "note"\\'})
        self.assertEqual(heir("kept")["names"], [])
        self.assert_connects(inside, LEARNED)
        self.assert_resolves_again(inside)
        self.assertEqual(heir("switch", "run")["generation"], 2)
        self.assertEqual(self.reachable(inside), {B4})
        heir("destroy", "kill")
        self.assertEqual(heir.finish()[0], 0)
        self.assert_nothing_left_behind()

    def test_killed_at_rest(self):
        """Ten owners one after the other. A learned address stays, a stream goes on."""
        keeper = self.keeper()
        generation = self.create(keeper)["generation"]
        inside = self.inside(keeper("state"))
        self.assert_resolves(inside, WWW, LEARNED)
        self.assertEqual(inside("open_stream", "kept", LEARNED)["errno"], "")
        for number in range(10):
            keeper.kill()
            self.assertEqual(self.reachable(inside), {A4})
            self.assertEqual(inside("ask", NOBODY4, SECRET, connected=True)["errno"],
                             "ECONNREFUSED")
            self.assertEqual(inside("send", "kept", f"dead-{number}-")["errno"], "")
            keeper = self.keeper()
            state = keeper("adopt", self.name)
            self.assertEqual((state["phase"], state["generation"]), ("setup", generation))
            self.assert_connects(inside, LEARNED)
            self.assert_resolves_again(inside)
            self.assertEqual(inside("send", "kept", f"alive-{number}-")["errno"], "")
            self.assertIsNotNone(self.recorder.wait(f"alive-{number}-"))
        self.assert_silent(D4)

    def test_two_owners(self):
        keeper = self.keeper()
        second = self.keeper(ready=False)
        self.assertEqual(second.answer()["errno"], "EBUSY")
        self.create(keeper)
        self.assertEqual(keeper.refused("create", self.name, BEFORE, "setup", "-"), "EEXIST")

    def test_denied(self):
        """Deny-all outlives its owner, and so does its generation."""
        keeper = self.keeper()
        inside = self.inside(self.create(keeper))
        self.assertEqual(keeper("deny")["generation"], 2)
        self.assertEqual(self.reachable(inside), set())
        keeper.kill()
        keeper = self.keeper()
        state = keeper("adopt", self.name)
        self.assertEqual((state["denied"], state["generation"]), (True, 2))
        self.assertEqual(self.reachable(inside), set())
        self.assertEqual(keeper("switch", "setup")["generation"], 3)
        self.assertEqual(self.reachable(inside), {A4})

    def test_shared_sets(self):
        """Of two with one policy the first ends, or gets another one; the second has what it had,
        after a kill in between as well."""
        other = self.name + "-2"
        text = policy(setup=allowlist(A4), run=allowlist(B4), verifier=allowlist(A4))
        keeper = self.keeper()
        first = self.inside(self.create(keeper, text=text))
        second = self.inside(keeper("more", other, text, "setup", "-"))
        keeper("swap")
        keeper("update", policy(setup=allowlist(B4), run=allowlist(A4)))
        self.assertEqual((self.reachable(first), self.reachable(second)), ({B4}, {A4}))
        keeper("update", text)
        for _ in range(2):
            keeper.kill()
            keeper = self.keeper()
            keeper("adopt", other)
            keeper("swap")
            keeper("adopt", self.name)
            self.assertEqual((self.reachable(first), self.reachable(second)), ({A4}, {A4}))
        keeper("destroy", "kill")
        keeper("swap")
        for phase, address in (("run", B4), ("verifier", A4), ("setup", A4)):
            keeper("switch", phase)
            self.assertEqual(self.reachable(second), {address})
        keeper.kill()
        keeper = self.keeper()
        keeper("adopt", other)
        self.assertEqual(self.reachable(second), {A4})
        keeper("destroy", "kill")
        self.assertEqual(keeper.finish()[0], 0)
        self.assert_nothing_left_behind()

    def test_update_by_the_next_owner(self):
        """What was learned by a name that nobody remembers stays where all names stay."""
        keeper = self.keeper()
        inside = self.inside(self.create(keeper, text=policy(setup=allowlist("*.example.com"))))
        self.assert_resolves(inside, WWW, LEARNED)
        keeper.kill()
        keeper = self.keeper()
        keeper("adopt", self.name)
        keeper("update", policy(setup=allowlist(B4, "*.example.com", SECRET)))
        self.assertEqual(inside("attempt", LEARNED, MORE), {LEARNED: "ok", MORE: "EPERM"})
        keeper.kill()
        keeper = self.keeper()
        keeper("adopt", self.name)
        self.assertEqual(inside("attempt", LEARNED, MORE), {LEARNED: "ok", MORE: "EPERM"})
        keeper("update", policy(setup=allowlist(B4, SECRET)))
        self.assertEqual(inside("attempt", LEARNED, MORE), {LEARNED: "EPERM", MORE: "EPERM"})

    def test_another_version(self):
        """Nothing is changed."""
        keeper = self.keeper()
        inside = self.inside(self.create(keeper))
        keeper.kill()
        path = f"{RECORDS}/{self.name}/state.json"
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace('"version":1', '"version":99', 1))
        newer = self.keeper(ready=False)
        self.assertEqual(newer.answer()["errno"], "EPROTO")
        self.assertEqual(self.reachable(inside), {A4})
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        self.keeper()("adopt", self.name)

    def test_its_cgroup_is_gone(self):
        keeper = self.keeper()
        state = self.create(keeper)
        keeper.kill()
        cgroups.remove(cgroups.path_of(state["member"]), "cgroup2")
        heir = self.keeper()
        self.assertEqual(heir("kept")["names"], [])
        self.assertFalse(os.path.exists(f"{RECORDS}/{self.name}"))


@unittest.skipUnless(steps.AVAILABLE, "built without PHASEGATE_TEST_HOOKS")
class Killed(AdoptTest):
    START = [step for step in steps.names() if step not in ("loaded", "spawned")]

    def test_create(self):
        """Until the phase is in force there is nothing, then all."""
        for step in self.START + ["unwritten", "stated", "saved"]:
            with self.subTest(step=step):
                keeper = self.keeper(step)
                self.assertTrue(self.stop(keeper, "create", self.name, BEFORE, "setup", "-"), step)
                keeper.kill()
                self.assert_silent(D4)
                heir = self.keeper()
                names = heir("kept")["names"]
                self.assertEqual(names, [self.name] if step in ("forced", "probed") else [])
                if names:
                    state = heir("adopt", self.name)
                    self.assertEqual((state["phase"], state["generation"]), ("setup", 1))
                else:
                    self.assertFalse(os.path.exists(f"{RECORDS}/{self.name}"))
                    state = self.create(heir)
                inside = self.inside(state)
                self.assertEqual(self.reachable(inside), {A4})
                self.assert_resolves_again(inside)
                heir("destroy", "kill")
                self.assertEqual(heir.finish()[0], 0)
                self.assert_nothing_left_behind()

    def test_create_of_what_is_running(self):
        """Until the phase is in force it is let go as it was before."""
        given = self.make_cgroup("given")
        inside = self.inside({"member": given})
        for step in self.START + ["unwritten", "stated", "saved"]:
            if step == "cgroup":
                continue
            with self.subTest(step=step):
                keeper = self.keeper(step)
                self.assertTrue(self.stop(keeper, "create", self.name, BEFORE, "setup", "a",
                                          given), step)
                keeper.kill()
                heir = self.keeper()
                if step in ("forced", "probed"):
                    self.assertEqual(heir("kept")["names"], [self.name])
                    heir("adopt", self.name)
                    self.assertEqual(self.reachable(inside), {A4})
                    heir("destroy", "release")
                self.assertEqual(heir("kept")["names"], [])
                self.assertEqual(self.reachable(inside), {A4, B4, D4})
                self.assertEqual(heir.finish()[0], 0)
                self.assert_nothing_left_behind()

    def begin(self, step):
        keeper = self.keeper(step)
        told = self.create(keeper)
        inside = self.inside(told)
        self.assert_resolves(inside, WWW, LEARNED)
        return keeper, inside

    def test_switch(self):
        keeper, inside = self.begin("switched")
        self.assertTrue(self.stop(keeper, "switch", "run"))
        self.assertEqual(self.reachable(inside), {B4})
        keeper.kill()
        self.assertEqual(self.reachable(inside), {B4})
        heir = self.keeper()
        state = heir("adopt", self.name)
        self.assertEqual((state["phase"], state["generation"]), ("run", 2))
        self.assertEqual(self.reachable(inside), {B4})

    def test_update(self):
        """Before the one write it is the old policy, after it the new one."""
        for step in steps.names("PG_KEPT_STEPS"):
            if not step.startswith("update"):
                continue
            with self.subTest(step=step):
                keeper, inside = self.begin(step)
                done = step in ("updated", "update-freed")
                self.assertTrue(self.stop(keeper, "update", AFTER), step)
                allowed = {B4} if done else {A4}
                self.assertEqual(self.reachable(inside), allowed)
                keeper.kill()
                self.assertEqual(self.reachable(inside), allowed)
                heir = self.keeper()
                state = heir("adopt", self.name)
                self.assertEqual((state["phase"], state["generation"]), ("setup", 1 + done))
                self.assertEqual(self.reachable(inside), allowed)
                self.assert_connects(inside, LEARNED)
                self.assert_resolves_again(inside)
                reply = inside("ask", NOBODY4, OTHER)
                self.assertEqual(reply["rcode"], "NOERROR" if done else "NXDOMAIN")
                self.assertEqual(heir("update", AFTER)["generation"], 2 + done)
                self.assertEqual(self.reachable(inside), {B4})
                self.assert_connects(inside, LEARNED, MORE)
                heir("destroy", "kill")
                self.assertEqual(heir.finish()[0], 0)
                self.assert_nothing_left_behind()

    def test_destroy(self):
        """Once it is intended the next one completes it."""
        for step in steps.names("PG_KEPT_STEPS"):
            if not step.startswith("end"):
                continue
            with self.subTest(step=step):
                keeper, inside = self.begin(step)
                self.assertTrue(self.stop(keeper, "destroy", "kill"), step)
                keeper.kill()
                heir = self.keeper()
                self.assertEqual(heir("kept")["names"], [])
                inside.process.wait(10)
                self.assertEqual(heir.finish()[0], 0)
                self.assert_nothing_left_behind()
                self.assert_silent(D4)

    def test_ending_what_was_half_done(self):
        """The next one is killed as well."""
        for first, second in (("end-closed", "end-detached"), ("end-killed", "end-removed"),
                              ("header", "end-detached"), ("recorded", "end-removed")):
            with self.subTest(first=first, second=second):
                keeper = self.keeper(first)
                if first.startswith("end"):
                    self.create(keeper)
                    self.assertTrue(self.stop(keeper, "destroy", "kill"))
                else:
                    self.assertTrue(self.stop(keeper, "create", self.name, BEFORE, "setup", "-"))
                keeper.kill()
                heir = self.keeper(second, ready=False)
                self.assertTrue(heir.wait_stopped())
                heir.kill()
                heir = self.keeper()
                self.assertEqual(heir("kept")["names"], [])
                self.assertEqual(heir.finish()[0], 0)
                self.assert_nothing_left_behind()

    def test_adopt(self):
        """The next one is killed as well."""
        keeper, inside = self.begin(None)
        keeper.kill()
        for step in steps.names("PG_KEPT_STEPS"):
            if not step.startswith("adopt"):
                continue
            with self.subTest(step=step):
                heir = self.keeper(step)
                self.assertTrue(self.stop(heir, "adopt", self.name), step)
                self.assertEqual(self.reachable(inside), {A4})
                heir.kill()
                self.assertEqual(self.reachable(inside), {A4})
        heir = self.keeper()
        self.assertEqual(heir("adopt", self.name)["generation"], 1)
        self.assert_connects(inside, LEARNED)
        self.assert_resolves_again(inside)


if __name__ == "__main__":
    isolate()
    main()
