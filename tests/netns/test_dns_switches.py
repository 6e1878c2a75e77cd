# SPDX-License-Identifier: Apache-2.0
"""Phases and names: what was learned in one phase, and what it means in the next."""

import json

from dnslab import DNSCLIENT, NOBODY4, PYTHON, DnsTest
from dnsserver import a
from harness import main
from lab import A4, A6, B4, D4, R4
from phasegate import NO_NETWORK, PUBLIC, allowlist, policy

SWITCHES = 1000
BOTH, SETUP_ONLY, RUN_ONLY = "both.example.com", "setup.example.com", "run.example.com"


class Switches(DnsTest):
    def test_nothing_leaks_while_names_are_resolved(self):
        """1,000 switches, four clients. The work is done by dns_switches.c."""
        def rule(network):
            def answer(name, kind, _):
                number = int(name.split(".")[0][1:])
                return [a(name, f"198.{network}.{number >> 8}.{number & 255}")]
            return answer

        self.server.rule("*.a.test", rule(18))
        self.server.rule("*.b.test", rule(19))
        self.run_program("dns_switches", self.lab.server.path, R4, str(SWITCHES))


class Cached(DnsTest):
    """Addresses that an application got in setup and uses in the run."""

    def setUp(self):
        super().setUp()
        self.server.host(BOTH, A4, A6)
        self.server.host(SETUP_ONLY, D4)
        self.server.host(RUN_ONLY, B4)

    @staticmethod
    def script(*calls):
        words = " ".join(f"'{json.dumps([call[0], call[1:], {}])}'" for call in calls)
        return f"{PYTHON} {DNSCLIENT} {words}"

    def outcomes(self, document, *options):
        """What setup can connect to, and then the run, with the addresses that setup asked for."""
        attempt = ("attempt", A4, A6, B4, D4)
        run = self.run_command(
            "--policy", document, "--resolver", R4, *options,
            "--setup", self.script(*(("ask", NOBODY4, name, kind) for kind in ("A", "AAAA")
                                     for name in (BOTH, SETUP_ONLY, RUN_ONLY)), attempt),
            "--run", self.script(attempt), "--verify", self.script(attempt))
        status, output = run.finish()
        self.assertEqual(status, 0, run.stderr)
        found = [json.loads(line) for line in output.splitlines()]
        return [{address for address, outcome in one.items() if outcome == "ok"}
                for one in found if A4 in one]

    def test_allowlists(self):
        text = policy(setup=allowlist(BOTH, SETUP_ONLY), run=allowlist(BOTH, RUN_ONLY),
                      verifier=NO_NETWORK)
        self.assertEqual(self.outcomes(text), [{A4, A6, D4}, {A4, A6, B4}, set()])

    def test_wildcards(self):
        """Those are not resolved at load: all that the run knows is what setup has asked."""
        text = policy(setup=PUBLIC, run=allowlist("*.example.com"), verifier=allowlist(BOTH))
        self.assertEqual(self.outcomes(text), [{A4, A6, B4, D4}, {A4, A6, B4, D4}, {A4, A6}])

    def test_a_name_that_only_setup_may_ask(self):
        """Of an allowlist, or because setup is public."""
        for setup in (allowlist("*.example.com"), PUBLIC):
            with self.subTest(setup=setup):
                text = policy(setup=setup, run=allowlist("*.example.org", B4), verifier=NO_NETWORK)
                self.assertEqual(self.outcomes(text), [{A4, A6, B4, D4}, {B4}, set()])


if __name__ == "__main__":
    main()
