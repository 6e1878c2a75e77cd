# SPDX-License-Identifier: Apache-2.0
"""Base of the tests that run all vectors in the containers of one runtime.

PHASEGATE_ADVERSARY_FULL=1 also tries as root what everybody can try; PHASEGATE_ADVERSARY_ONLY names
some vectors; PHASEGATE_ADVERSARY_JSON is a file that gets every result, one JSON object a line."""

import json
import os
import time

import report
import rows
from agentcase import AgentTest
from containers import ADMIN, DEFAULT
from daemon import Daemon
from phasegate import PUBLIC
from suite import DENIED, LIST, MODES, POLICY, ROOT, TO_ALLOWED, USER, Suite, judge
from world import World

SOON = 10
PROCESSES = ((DEFAULT, USER), (DEFAULT, ROOT), (ADMIN, ROOT))


class VectorsTest(AgentTest):
    """container(privilege, environment) starts one; set_up() comes before."""

    # Of a container in a parent, too, nothing would be executed.
    SETTINGS = {"exposures": {"cap_net_admin": "warn"}}

    @classmethod
    def setUpClass(cls):
        cls.world = World()
        cls.addClassCleanup(cls.world.close)
        cls.set_up()
        cls.daemon = Daemon(cls.world.lab, **cls.SETTINGS)
        cls.addClassCleanup(cls.daemon.close)

    def setUp(self):
        pass

    def tearDown(self):
        for name in list(self.daemon.names):
            self.daemon.destroy(name)
            self.daemon.names.discard(name)

    def wait_guarded(self, name):
        """Until the guard of its container's veth is there (see test_first.py)."""
        began = time.monotonic()
        while [link["guard"] for link in self.daemon.show(name)["links"]] != ["on"]:
            self.assertLess(time.monotonic() - began, SOON, "no guard comes")

    def run_all(self, containers, environments):
        """containers: {privilege: container}."""
        only = os.environ.get("PHASEGATE_ADVERSARY_ONLY", "").split()
        suite = Suite(self.world, only, "PHASEGATE_ADVERSARY_FULL" in os.environ)
        for mode, phase in MODES.items():
            for name in environments:
                reply = self.daemon.phase(name, phase, survivors="allow")
                self.assertEqual(reply.status, 200, reply)
            for privilege, user in PROCESSES:
                for target in (DENIED, TO_ALLOWED) if mode == LIST else (DENIED,):
                    suite.batch(containers[privilege], privilege, user, mode, target)
                suite.look(containers[privilege])
        for container in containers.values():
            suite.look(container)
        return list(suite.results())

    def check(self, results):
        self.keep(results)
        groups = report.grouped(results)
        print(report.table(groups), flush=True)
        wrong = []
        for (vector, family, privileges), found in groups.items():
            for mode, verdict in judge(rows.ROWS[vector], found).items():
                if not verdict.wanted:
                    wrong.append(f"{vector} {family} as {privileges} in {mode}: {verdict.word}, "
                                 f"told {verdict.text or 'nothing'}")
                    wrong += [f"    {r.target} {r.seen} {r.frame}" for r in found
                              if r.frame and r.mode == mode]
        if wrong:
            self.fail("not as it has to be:\n" + "\n".join(wrong))

    @staticmethod
    def keep(results):
        path = os.environ.get("PHASEGATE_ADVERSARY_JSON")
        if path:
            with open(path, "a", encoding="utf-8") as file:
                for result in results:
                    file.write(json.dumps(result._asdict()) + "\n")


__all__ = ["MODES", "POLICY", "PUBLIC", "VectorsTest"]
