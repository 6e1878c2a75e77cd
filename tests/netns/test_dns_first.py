# SPDX-License-Identifier: Apache-2.0
"""The first connection: an address is allowed before its answer goes out."""

from dnslab import NOBODY4, NOBODY6, DnsTest
from harness import main
from phasegate import allowlist, policy
from recorder import PORT, SYN, TCP

NAMES, AT_ONCE = 10_000, 500


class First(DnsTest):
    def test_new_names_with_new_addresses(self):
        """Resolved and connected to at once, 10,000 times; each SYN arrives."""
        self.server.fresh("fresh.example.com")
        inside = self.client(policy(run=allowlist("*.fresh.example.com")), "--dns",
                             f"wildcard-budget={2 * NAMES}", "--dns", f"addresses={2 * NAMES}")
        reached = set()
        for first in range(0, NAMES, AT_ONCE):
            server = NOBODY6 if first // AT_ONCE % 2 else NOBODY4
            result = inside("ask_and_connect", server, "n{}.fresh.example.com", AT_ONCE, first)
            self.assertEqual(result, {"connects": AT_ONCE, "outcomes": {"ok": AT_ONCE}})
            reached |= {p.destination for p in self.fence()
                        if p.protocol == TCP and p.port == PORT and p.flags & SYN}
        self.assertEqual(len(reached), NAMES)
        self.assertEqual(inside("attempt", "198.19.0.1")["198.19.0.1"], "EPERM")
        report = inside.end()["dns"]
        self.assertEqual((report["answered"], report["failed"], report["overload"]), (NAMES, 0, 0))


if __name__ == "__main__":
    main()
