# SPDX-License-Identifier: Apache-2.0
"""What one phase's names mean to another: budgets and open connections."""

from dnslab import NOBODY4, DnsTest
from dnsserver import a
from harness import main
from lab import A4, R4
from phasegate import allowlist, policy


class Phases(DnsTest):
    def test_the_budget_is_that_of_an_entry_of_the_phase(self):
        """Longer wildcards of other phases are not in the list that is in force."""
        self.server.rule("*.example.com", lambda name, *_: [a(name, A4)])
        document = policy(setup=allowlist("*.a.example.com", "*.b.example.com"),
                          run=allowlist("*.example.com"))
        inside = self.client(document, "--dns", "wildcard-budget=2")
        replies = [inside("ask", NOBODY4, f"n.{letter}.example.com") for letter in "abc"]
        self.assertEqual([reply["rcode"] for reply in replies], ["NOERROR", "NOERROR", "SERVFAIL"])
        self.assertIn("*.example.com ", inside.warnings("wildcard_budget")[0])

    def test_open_connections_to_nameservers(self):
        self.run_program("dns_connections", R4)


if __name__ == "__main__":
    main()
