# SPDX-License-Identifier: Apache-2.0
"""Which programs an Environment has: those for DNS only where the policy has names."""

import json
import subprocess

import cgroups
from dnslab import DnsTest
from harness import main
from lab import A4
from phasegate import PUBLIC, allowlist, policy

FOR_DNS = {"recvmsg4", "recvmsg6", "getpeername4", "getpeername6", "setsockopt"}


class Hooks(DnsTest):
    def hooks(self, document):
        inside = self.client(document)
        name = next(e["environment"] for e in inside.events if e["event"] == "start")
        shown = subprocess.run(
            ["bpftool", "--json", "cgroup", "show", cgroups.path_of(f"/phasegate/{name}")],
            stdout=subprocess.PIPE, check=True)
        return {program["name"].removeprefix("pg_") for program in json.loads(shown.stdout)}

    def test_only_with_names(self):
        without = self.hooks(policy(setup=PUBLIC, run=allowlist(A4)))
        self.assertIn("egress", without)
        self.assertEqual(without & FOR_DNS, set())
        self.assertEqual(self.hooks(policy(setup=PUBLIC, run=allowlist("*.example.com"))) - without,
                         FOR_DNS)


if __name__ == "__main__":
    main()
