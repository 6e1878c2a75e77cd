# SPDX-License-Identifier: Apache-2.0
"""What the API says of addresses that are not taken for an Environment's own."""

import os
import tempfile
import time

import cgroups
from agentcase import ALL_LISTED, AgentTest
from harness import main
from lab import Namespace, in_root
from phasegate import NO_NETWORK


class OwnAddresses(AgentTest):
    # What the test has in the place of a container is not one otherwise.
    SETTINGS = {"exposures": ALL_LISTED}

    def wait_for(self, condition, about):
        deadline = time.monotonic() + 30
        while not condition():
            self.assertLess(time.monotonic(), deadline, about)
            time.sleep(0.02)

    def refused(self, name):
        reply = self.daemon.call("GET", f"/v1/events?environment={name}")
        return [(event["address"], "CAP_NET_ADMIN" in event["message"]) for event in reply.body
                if event["event"] == "own_address_refused"]

    def test_event(self):
        """Of each address, once; not of those that were there before."""
        namespace = Namespace()
        self.addCleanup(namespace.close)
        directory = tempfile.mkdtemp(prefix="pgt-root-")
        self.addCleanup(os.rmdir, directory)
        namespace.ip("link set lo up", "addr add 192.0.2.98/32 dev lo")
        cgroup = self.make_cgroup(self.name("box"))
        process = self.start_in(cgroups.path_of(cgroup), *namespace.command(
            *in_root(directory), "sleep", "1000"))
        self.wait_for(lambda: os.stat(f"/proc/{process.pid}/root/").st_dev != os.stat("/").st_dev,
                      "it does not come to its root directory")
        name = self.create({"network_policy": NO_NETWORK}, members=[{"cgroup": cgroup}],
                           attach=True)["name"]
        namespace.ip("addr add 192.0.2.99/32 dev lo", "addr add 2001:db8:9::9/128 dev lo nodad")
        self.wait_for(lambda: len(self.refused(name)) == 2, "no event")
        self.assertEqual(self.refused(name), [("192.0.2.99", True), ("2001:db8:9::9", True)])


if __name__ == "__main__":
    main()
