# SPDX-License-Identifier: Apache-2.0
"""All vectors in containers of runc, below the cgroup of an Environment."""

import unittest

from case import POLICY, VectorsTest
from containers import ADMIN, DEFAULT, Runc
from harness import main
from world import BRIDGE


@unittest.skipUnless(Runc.available, "needs runc and busybox")
class RuncVectors(VectorsTest):
    @classmethod
    def set_up(cls):
        cls.world.make_bridge()
        cls.world.watch("link", cls.world.host, BRIDGE)

    def test_vectors(self):
        containers, environments = {}, []
        for privilege in (DEFAULT, ADMIN):
            made = self.create(POLICY)
            environments.append(made["name"])
            containers[privilege] = Runc(self.world, made, privilege, made["name"])
            self.wait_guarded(made["name"])
        self.check(self.run_all(containers, environments))


if __name__ == "__main__":
    main()
