# SPDX-License-Identifier: Apache-2.0
"""Which programs an Environment has: those for DNS only where the policy has names."""

import os

from dnslab import DnsTest
from harness import main
from lab import A4
from phasegate import PUBLIC, allowlist, policy

PINS = "/sys/fs/bpf/phasegate"
FOR_DNS = {"recvmsg4", "recvmsg6", "getpeername4", "getpeername6", "setsockopt"}


class Hooks(DnsTest):
    def pins(self, document):
        inside = self.client(document)
        name = next(e["environment"] for e in inside.events if e["event"] == "start")
        return {pin.removeprefix("pg_") for pin in os.listdir(f"{PINS}/{name}/0")}

    def test_only_with_names(self):
        without = self.pins(policy(setup=PUBLIC, run=allowlist(A4)))
        self.assertIn("egress", without)
        self.assertEqual(without & FOR_DNS, set())
        self.assertEqual(self.pins(policy(setup=PUBLIC, run=allowlist("*.example.com"))) - without,
                         FOR_DNS)


if __name__ == "__main__":
    main()
