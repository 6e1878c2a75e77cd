#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Without descriptors: each operation fails whole, at whichever of them, and others are served once
there are some again. PHASEGATE_EVERY=1 leaves out none."""

import json
import os
import resource
import time

from agentcase import AgentTest
from daemon import UnixConnection, directory_of, read_reply
from harness import main
from lab import A4
from phasegate import NO_NETWORK, PUBLIC, allowlist

POLICY = {"network_policy": PUBLIC, "run_network_policy": allowlist(A4)}
EVERY = int(os.environ.get("PHASEGATE_EVERY", "3"))
# More than any operation needs at once.
MOST = 200
CODES = (None, "enforcement_failed", "out_of_memory", "member_not_found", "member_unfit",
         "runtime_unavailable")


class Descriptors(AgentTest):
    def setUp(self):
        super().setUp()
        self.codes = set()
        # One connection, so that it is not what fails.
        self.connection = UnixConnection(self.daemon.socket)
        self.addCleanup(self.connection.close)
        self.ask("GET", "/v1/environments")
        self.addCleanup(self.limit, None)

    def ask(self, method, target, body=None):
        self.connection.request(method, target, None if body is None else json.dumps(body))
        return read_reply(self.connection, method, target)

    def numbers(self):
        """Descriptors in use, but for those of a look that the agent takes at this moment by
        itself: what stays the same for some time."""
        found, same = None, 0
        while same < 5:
            now = set(map(int, os.listdir(f"/proc/{self.daemon.process.pid}/fd")))
            same = same + 1 if now == found else 0
            found = now
            time.sleep(0.002)
        return found

    def limit(self, free):
        """So many descriptors more than are in use; None: enough."""
        pid = self.daemon.process.pid
        used = self.numbers()
        _, most = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        number = 0
        while free is not None and (free > 0 or number in used):
            free -= number not in used
            number += 1
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (most if free is None else number, most))

    def used(self):
        return len(self.numbers())

    def until_it_works(self, operation, check, every=EVERY):
        """Does it with ever more descriptors; check is called after each that failed."""
        failed = 0
        for free in range(0, MOST, every):
            before = self.used()
            self.limit(free)
            try:
                reply = operation()
            finally:
                self.limit(None)
            self.assertIn(reply.code, CODES, reply)
            if reply.status < 400:
                print(f"{self.id()}: {failed} failures, then {free} descriptors are enough",
                      flush=True)
                return reply
            failed += 1
            self.codes.add(reply.code)
            self.assertLess(self.used(), before + 4, reply)
            check()
        self.fail(f"it does not work with {MOST} descriptors")

    def test_create(self):
        name = self.name()
        self.daemon.names.add(name)
        cgroup = self.make_cgroup("m")
        body = {"name": name, "policy": POLICY, "members": [{"cgroup": cgroup}]}

        def nothing_is_left():
            self.assertEqual(self.ask("GET", "/v1/environments")["environments"], [])
            self.assertFalse(os.path.exists(f"/run/phasegate/{name}"))

        self.until_it_works(lambda: self.ask("POST", "/v1/environments", body), nothing_is_left)

    def test_create_with_a_cgroup_of_its_own(self):
        name = self.name()
        self.daemon.names.add(name)
        body = {"name": name, "policy": POLICY}

        def nothing_is_left():
            self.assertEqual(self.ask("GET", "/v1/environments")["environments"], [])
            self.assertFalse(os.path.exists(f"/run/phasegate/{name}"))

        made = self.until_it_works(lambda: self.ask("POST", "/v1/environments", body),
                                   nothing_is_left)
        self.assertTrue(os.path.isdir(directory_of(made)))

    def test_switch_and_update(self):
        made = self.create(POLICY)
        target = f"/v1/environments/{made['name']}"
        process = self.start_in(directory_of(made), "sleep", "1000")
        self.wait_in(directory_of(made), process.pid)

        def as_before():
            shown = self.ask("GET", target)
            self.assertEqual((shown["phase"], shown["denied"]), ("setup", False))

        self.until_it_works(lambda: self.ask("PUT", target + "/phase", {"phase": "run"}),
                            as_before)

        def still_in_the_run():
            shown = self.ask("GET", target)
            self.assertEqual((shown["phase"], shown["denied"]), ("run", False))

        late = self.start_in(directory_of(made), "sleep", "1000")
        self.wait_in(directory_of(made), late.pid)
        self.codes.clear()
        self.until_it_works(lambda: self.ask("PUT", target + "/phase",
                                             {"phase": "setup", "survivors": "freeze"}),
                            still_in_the_run, every=1)
        self.assertIn("enforcement_failed", self.codes)
        generation = self.ask("GET", target)["generation"]

        def same_policy():
            shown = self.ask("GET", target)
            self.assertEqual((shown["generation"], shown["modes"]["run"]),
                             (generation, "allowlist"))

        self.until_it_works(lambda: self.ask("PUT", target + "/policy",
                                             {"policy": {"network_policy": NO_NETWORK}}),
                            same_policy)

    def test_destroy(self):
        """It may take more than one start to get rid of all, but nothing is open meanwhile."""
        made = self.create(POLICY)
        target = f"/v1/environments/{made['name']}"

        def destroy():
            reply = self.ask("DELETE", target + "?processes=kill")
            if reply.code == "environment_not_found":
                self.fail("it was forgotten by one that failed")
            return reply

        self.until_it_works(destroy, lambda: None)
        self.assertFalse(os.path.exists(directory_of(made)))

    def test_connections(self):
        """Who connects meanwhile is served at the cost of idle ones, if need be when asking again."""
        idle = [UnixConnection(self.daemon.socket) for _ in range(20)]
        for connection in idle:
            self.addCleanup(connection.close)
            connection.connect()
        self.ask("GET", "/v1/environments")
        self.limit(0)
        codes = []
        while not codes or codes[-1]:
            self.assertLess(len(codes), 20, codes)
            codes.append(self.daemon.call("GET", "/v1/environments").code)
            self.assertIn(codes[-1], (None, "out_of_memory"))


if __name__ == "__main__":
    main()
