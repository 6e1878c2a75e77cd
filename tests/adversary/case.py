# SPDX-License-Identifier: Apache-2.0
"""Base of the tests that run all vectors in the containers of one runtime.

PHASEGATE_ADVERSARY_ONLY names some vectors; PHASEGATE_ADVERSARY_JSON a file that gets every result,
one JSON object a line."""

import collections
import json
import os
import sys

import report
import rows
from agentcase import AgentTest
from containers import ADMIN, DEFAULT
from daemon import Daemon
from phasegate import PUBLIC
from suite import DENIED, LIST, MODES, POLICY, ROOT, TO_ALLOWED, USER, Suite, judge
from world import World

PROCESSES = ((DEFAULT, USER), (DEFAULT, ROOT), (ADMIN, ROOT))


class VectorsTest(AgentTest):
    """container(privilege, environment) starts one; set_up() comes before."""

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

    def run_all(self, containers, environments):
        """containers: {privilege: container}."""
        only = os.environ.get("PHASEGATE_ADVERSARY_ONLY", "").split()
        suite = Suite(self.world, only)
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
        groups = collections.defaultdict(list)
        for result in results:
            groups[result.vector, result.family, result.privileges].append(result)
        print(report.table(groups), flush=True)
        slow = collections.Counter()
        for result in results:
            slow[result.vector] += result.ms
        print(f"{len(results)} attempts, of them slow (ms):", dict(slow.most_common(8)), flush=True)
        wrong = []
        for (vector, family, privileges), found in groups.items():
            for mode, verdict in judge(rows.ROWS[vector], found).items():
                if not verdict.wanted:
                    wrong.append(f"{vector} {family} as {privileges} in {mode}: {verdict.word}, "
                                 f"told {verdict.text or 'nothing'}")
        if wrong:
            self.fail("not as it has to be:\n" + "\n".join(wrong))

    @staticmethod
    def keep(results):
        path = os.environ.get("PHASEGATE_ADVERSARY_JSON")
        if path:
            with open(path, "a", encoding="utf-8") as file:
                for result in results:
                    file.write(json.dumps(result._asdict()) + "\n")


__all__ = ["MODES", "POLICY", "PUBLIC", "VectorsTest", "sys"]
