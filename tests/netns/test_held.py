# SPDX-License-Identifier: Apache-2.0
"""The owner of a kept Environment is killed while it ends survivors: the next one lets go on what
was held for a moment, and what was frozen for long stays so."""

import unittest

import cgroups
import steps
from harness import main
from keeper import isolate
from lab import A4
from test_members import TEXT, Survivors as Base, cgroup_of


@unittest.skipUnless(steps.AVAILABLE, "built without PHASEGATE_TEST_HOOKS")
class Held(Base):
    # Those of the base are of another test.
    test_kill = test_freeze = test_forking = None

    def held(self, member):
        with open(cgroups.path_of(member) + "/cgroup.freeze", encoding="ascii") as file:
            return file.read().strip() == "1"

    def begin(self, step):
        keeper = self.keeper(step)
        member = self.create(keeper, text=TEXT)["member"]
        before = self.inside({"member": member})
        now = str(self.later(keeper))
        return keeper, member, before, self.inside({"member": member}), now

    def test_held(self):
        for step in ("held", "survivors-ended"):
            for how in ("kill", "freeze"):
                with self.subTest(step=step, how=how):
                    keeper, member, before, after, now = self.begin(step)
                    pid = after("pid")
                    self.assertTrue(self.stop(keeper, "survivors", now, how))
                    self.assertTrue(self.held(member))
                    keeper.kill()
                    self.assertTrue(self.held(member))
                    heir = self.keeper()
                    heir("adopt", self.name)
                    self.assertFalse(self.held(member))
                    self.assertEqual(self.reachable(before), {A4})
                    if step == "held":
                        self.assertEqual(self.reachable(after), {A4})
                    elif how == "kill":
                        self.assertEqual(after.process.wait(5), -9)
                    else:
                        self.assertIn("/frozen-", cgroup_of(pid))
                        heir("thaw")
                        self.assertEqual(self.reachable(after), {A4})
                    heir("destroy", "kill")
                    self.assertEqual(heir.finish()[0], 0)
                    self.assert_nothing_left_behind()

    def test_frozen_by_others(self):
        """That is no hold of ours."""
        keeper, member, _, after, now = self.begin(None)
        with open(cgroups.path_of(member) + "/cgroup.freeze", "w", encoding="ascii") as file:
            file.write("1")
        keeper("survivors", now, "kill")
        self.assertEqual(after.process.wait(5), -9)
        self.assertTrue(self.held(member))
        keeper("destroy", "kill")


if __name__ == "__main__":
    isolate()
    main()
