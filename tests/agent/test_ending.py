# SPDX-License-Identifier: Apache-2.0
"""An Environment whose end fails is denied everything, and ended as soon as it can be."""

import os
import time

import cgroups
from agentcase import AgentTest
from daemon import BUSY_LIMIT
from harness import main
from left import RECORDS
from phasegate import PUBLIC


class Ending(AgentTest):
    def wait_gone(self, path):
        deadline = time.monotonic() + BUSY_LIMIT
        while os.path.exists(path):
            self.assertLess(time.monotonic(), deadline, path)
            time.sleep(0.02)

    def fail_to_end(self, name):
        """Something is in the way; the record, and what is."""
        record = f"{RECORDS}/{name}"
        obstacle = f"{record}/obstacle"
        os.mkdir(obstacle)
        reply = self.daemon.destroy(name)
        self.assertEqual(reply.status, 500, reply)
        self.assertIn(record, reply["message"])
        self.assertEqual(self.daemon.show(name).status, 404)
        return record, obstacle

    def test_tried_again(self):
        made = self.create({"network_policy": PUBLIC})
        name, cgroup = made["name"], cgroups.path_of(made["cgroup_parent"])
        record, obstacle = self.fail_to_end(name)
        # Its name is not free, and what else goes on is not disturbed.
        self.assertGreaterEqual(self.daemon.create(name, policy={}).status, 400)
        self.daemon.destroy(self.create()["name"])
        os.rmdir(obstacle)
        self.wait_gone(record)
        self.assertFalse(os.path.exists(cgroup))
        self.assertEqual(self.create(name=name)["name"], name)

    def test_at_the_next_start(self):
        """If it could not be before that."""
        record, obstacle = self.fail_to_end(self.create()["name"])
        self.daemon.stop()
        os.rmdir(obstacle)
        self.daemon.start()
        self.wait_gone(record)


if __name__ == "__main__":
    main()
