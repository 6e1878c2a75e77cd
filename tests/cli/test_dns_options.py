#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--resolver, --hosts and --dns of `run`: test_dns_options.py BINARY VECTORS.

No command is given, so nothing can be started: options that are in order end with that complaint.
"""

import json
import tempfile
import unittest

from cli import main, phasegate

POLICY = '{"run_network_policy":{"network_mode":"allowlist","allowed_hosts":["a.example"]}}'
NO_COMMAND = "run needs a command"


class DnsOptions(unittest.TestCase):
    def assert_taken(self, *options):
        done = phasegate("run", "--policy", POLICY, *options)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn(NO_COMMAND, done.stderr, options)

    def assert_wrong(self, options, *said):
        done = phasegate("run", "--policy", POLICY, *options, "--", "true")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        for text in said:
            self.assertIn(text, done.stderr, options)

    def test_resolvers(self):
        for address in ("192.0.2.53", "192.0.2.53:5353", "2001:db8::53", "[2001:db8::53]:53",
                        "[2001:db8::53]", "127.0.0.53", "::1", "environment"):
            self.assert_taken("--resolver", address)
        self.assert_taken(*["--resolver", "192.0.2.53"] * 3)
        self.assert_wrong(["--resolver", "192.0.2.53"] * 4, "at most 3 --resolver options")

    def test_resolvers_that_are_none(self):
        for text in ("", "dns.example", "192.0.2.53:", "192.0.2.53:0", "192.0.2.53:65536",
                     "192.0.2", "[2001:db8::53", "fe80::53%eth0", "Environment"):
            self.assert_wrong(["--resolver", text], f"--resolver {text}: give an address",
                              "192.0.2.53:5353", '"environment"')

    def test_environment_stands_alone(self):
        for options in (["environment", "192.0.2.53"], ["192.0.2.53", "environment"],
                        ["environment", "environment"]):
            words = [word for option in options for word in ("--resolver", option)]
            self.assert_wrong(words, "--resolver environment stands alone")

    def test_settings(self):
        for setting in ("floor=0", "floor=86400", "grace=0", "grace=86400", "wildcard-budget=1",
                        "wildcard-budget=1000000", "addresses=1", "addresses=1048576",
                        "private=learn", "private=deny", "denied=nxdomain", "denied=refused"):
            self.assert_taken("--dns", setting)
        self.assert_taken("--dns", "floor=1", "--dns", "grace=2", "--dns", "floor=3")

    def test_settings_out_of_range(self):
        for key, values, said in (
            ("floor", ("-1", "86401", "", "x", "1s", "1 ", " 1", "+1", "0x10", "1e3",
                       "99999999999999999999"), "give 0 to 86400 seconds"),
            ("grace", ("-1", "86401"), "give 0 to 86400 seconds"),
            ("wildcard-budget", ("0", "1000001"), "give 1 to 1000000 names a minute"),
            ("addresses", ("0", "1048577"), "give 1 to 1048576 addresses"),
            ("private", ("", "no", "Learn"), "it is learn or deny"),
            ("denied", ("", "servfail", "NXDOMAIN"), "it is nxdomain or refused"),
        ):
            for value in values:
                self.assert_wrong(["--dns", f"{key}={value}"], f"--dns {key}={value}: {said}")

    def test_settings_that_are_none(self):
        for text in ("=1", "bogus=1", "Floor=1", "floor =1"):
            self.assert_wrong(["--dns", text], "the settings are floor, grace, wildcard-budget")
        for text in ("", "floor", "floor:1"):
            self.assert_wrong(["--dns", text], "give KEY=VALUE")

    def test_hosts(self):
        with tempfile.NamedTemporaryFile("w") as file:
            self.assert_taken("--hosts", file.name)
            self.assert_wrong(["--hosts", file.name] * 2, "--hosts is given twice")
        self.assert_wrong(["--hosts", "/nonexistent/hosts"],
                          "--hosts: cannot read /nonexistent/hosts: No such file")

    def test_json(self):
        done = phasegate("run", "--policy", POLICY, "--dns", "floor=x", "--json", "--", "true")
        event = json.loads(done.stderr)
        self.assertEqual((done.returncode, event["event"], event["code"]), (2, "error", "usage"))
        self.assertIn("--dns floor=x", event["message"])

    def test_help(self):
        text = phasegate("run", "--help").stdout
        for word in ("--resolver", "environment", "--hosts", "--dns", "floor", "grace",
                     "wildcard-budget", "addresses", "private=", "denied="):
            self.assertIn(word, text)


if __name__ == "__main__":
    main()
