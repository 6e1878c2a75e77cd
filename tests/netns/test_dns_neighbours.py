# SPDX-License-Identifier: Apache-2.0
"""Environments that share a network namespace: nothing of one's names applies to the other."""

import os
import re

from dnslab import NOBODY4, NOBODY6, DnsTest
from harness import main
from lab import A4, A6, B4, D4
from phasegate import NO_NETWORK, PUBLIC, allowlist, policy

ONE, TWO = "one.example.com", "two.example.com"


class Neighbours(DnsTest):
    def setUp(self):
        super().setUp()
        self.server.host(ONE, A4, A6)
        self.server.host(TWO, B4)

    def listeners(self, owner):
        """(address, port) of what the owner has open on loopback."""
        inodes = set()
        for fd in os.listdir(f"/proc/{owner}/fd"):
            found = re.match(r"socket:\[(\d+)\]", os.readlink(f"/proc/{owner}/fd/{fd}"))
            if found:
                inodes.add(found.group(1))
        return {row[0]: row[1] for row in self.bound(owner) if row[2] in inodes}

    @staticmethod
    def bound(pid):
        """UDP sockets of the namespace that are on loopback, as (address, port, inode)."""
        for version in ("udp", "udp6"):
            with open(f"/proc/{pid}/net/{version}", encoding="ascii") as file:
                for line in list(file)[1:]:
                    words = line.split()
                    address, port = words[1].split(":")
                    if version == "udp" and address.endswith("7F"):
                        text = ".".join(str(b) for b in reversed(bytes.fromhex(address)))
                        yield text, int(port, 16), words[9]
                    elif version == "udp6" and address == "0" * 24 + "01000000":
                        yield "::1", int(port, 16), words[9]

    def test_two_policies_one_nameserver(self):
        one = self.client(policy(run=allowlist(ONE)))
        two = self.client(policy(run=allowlist(TWO)))
        for way in ({}, {"tcp": True}):
            for server in (NOBODY4, NOBODY6, "127.0.0.11"):
                self.assert_resolves(one, ONE, A4, server=server, **way)
                self.assert_resolves(two, TWO, B4, server=server, **way)
                self.server.queries()
                self.assert_denied_name(one, TWO, server=server, **way)
                self.assert_denied_name(two, ONE, server=server, **way)
                self.assertEqual(self.server.names(), [])
        self.assert_connects(one, A4)
        self.assert_connects(two, B4)
        self.assert_refused(one, B4)
        self.assert_refused(two, A4)

    def test_the_listener_of_another_is_out_of_reach(self):
        """Named by its address and port, in every mode. One's own is not."""
        one = self.client(policy(run=allowlist(ONE)))
        endpoints = self.listeners(one.pid)
        self.assertEqual(len(endpoints), 2, endpoints)
        for address, port in endpoints.items():
            reply = one("ask", address, ONE, port=port)
            self.assertEqual(reply.get("addresses"), [A4], reply)
        everything = allowlist(TWO, "127.0.0.0/8", "::1")
        for value in (allowlist(TWO), everything, PUBLIC, NO_NETWORK):
            with self.subTest(value=value):
                two = self.client(policy(setup=allowlist(TWO), run=value))
                self.server.queries()
                for address, port in endpoints.items():
                    for way in ({}, {"connected": True}, {"tcp": True}):
                        reply = two("ask", address, ONE, port=port, limit=0.7, **way)
                        self.assertNotIn("rcode", reply)
                        self.assertIn(reply["errno"], ("EPERM", "ECONNABORTED", "TimeoutError"))
                self.assertEqual(self.server.names(), [])

    def test_learned_addresses_are_ones_own(self):
        one = self.client(policy(run=allowlist("*.example.com")))
        two = self.client(policy(run=allowlist("*.example.com")))
        self.assert_resolves(one, ONE, A4)
        self.assert_connects(one, A4)
        self.assert_refused(two, A4, D4)
        self.assert_resolves(two, ONE, A4)
        self.assert_connects(two, A4)

    def test_one_ends_and_the_other_goes_on(self):
        one = self.client(policy(run=allowlist(ONE)))
        two = self.client(policy(run=allowlist(TWO)))
        self.assert_resolves(one, ONE, A4)
        endpoints = self.listeners(one.pid)
        inodes = {row[2] for row in self.bound(two.pid)}
        one.finish()
        self.assert_resolves(two, TWO, B4)
        self.assertTrue(endpoints)
        self.assertLess({row[2] for row in self.bound(two.pid)}, inodes)


if __name__ == "__main__":
    main()
