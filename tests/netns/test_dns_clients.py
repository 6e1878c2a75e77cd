# SPDX-License-Identifier: Apache-2.0
"""Every client's own resolver: allowed names resolve and connect, denied ones leave no trace."""

import os
import re

from dnslab import NOBODY4, NOBODY6, DnsTest
from dnsserver import Reply, a
from harness import main, token
from lab import A4, A6, D4
from phasegate import PROBE, allowlist, policy

NAME, MANY, HUGE = "allowed.example.com", "many.example.com", "huge.example.com"
SECRET = "secret.example.net"
HERE = os.path.dirname(os.path.abspath(__file__))
BUILT = os.path.dirname(PROBE)
MANY_ADDRESSES = [f"198.18.4.{i}" for i in range(1, 41)]
HUGE_ADDRESSES = [f"198.18.{5 + i // 200}.{i % 200 + 1}" for i in range(250)]


class ClientTest(DnsTest):
    def setUp(self):
        super().setUp()
        self.server.host(NAME, A4, A6)
        self.server.host(MANY, *MANY_ADDRESSES)
        self.server.host(HUGE, *HUGE_ADDRESSES)
        self.server.host(SECRET, D4)
        self.inside = self.client(policy(run=allowlist(NAME, MANY, HUGE)))

    def run_inside(self, *words):
        result = self.inside("run", *words)
        return result["status"], result["output"]


class Clients(ClientTest):
    def check(self, *words, **more):
        """words with {name} and {token}: a program that prints "ADDRESS TOKEN" for each address."""
        mark = token("client")
        status, output = self.run_inside(*(w.format(name=NAME, token=mark) for w in words))
        self.assertEqual((status, sorted(output.splitlines())),
                         (0, sorted([f"{A4} {mark}", f"{A6} {mark}"])))
        self.assertEqual(len(self.recorder.arrivals(mark)), 2)
        self.check_denied(*words, **more)

    def check_denied(self, *words, unresolved="unresolved"):
        self.server.queries()
        self.capture.drain()
        for name in (SECRET, "x." + SECRET, "x." + NAME, "not" + NAME):
            status, output = self.run_inside(*(w.format(name=name, token="no") for w in words))
            self.assertIn(unresolved, output)
            self.assertNotEqual(status, 0)
        self.assert_nothing_left()

    def test_glibc(self):
        """A and AAAA in parallel from one socket, and the other ways that options choose."""
        for options in ("", "single-request", "single-request-reopen", "use-vc", "edns0", "rotate",
                        "trust-ad"):
            with self.subTest(options=options):
                self.resolv_conf(f"nameserver {NOBODY4}", f"nameserver {NOBODY6}",
                                 *([f"options {options}"] if options else []))
                mark = token("glibc")
                found = self.inside("visit", NAME, mark)
                self.assertEqual(found["addresses"], sorted([A4, A6]), found)
                self.assertEqual({one["data"] for one in found["connects"].values()}, {mark})
                self.server.queries()
                for name in (SECRET, "x." + NAME):
                    self.assertEqual(self.inside("lookup", name)["error"], "EAI_NONAME")
                self.assert_nothing_left()

    def test_glibc_in_threads(self):
        names = [NAME, SECRET, MANY] * 20
        found = self.inside("lookup_many", names)
        for name, one in zip(names, found):
            self.assertEqual(len(one["addresses"]), {NAME: 2, SECRET: 0, MANY: 40}[name], one)

    def test_musl(self):
        self.resolv_conf(f"nameserver {NOBODY4}", f"nameserver {NOBODY6}", "nameserver 127.0.0.11")
        self.check(f"{BUILT}/resolve_musl", "{name}", "{token}")

    def test_go(self):
        for options in ("timeout:5", "use-vc", "edns0"):
            with self.subTest(options=options):
                self.resolv_conf(f"nameserver {NOBODY4}", f"options {options}")
                self.check("env", "GODEBUG=netdns=go", f"{BUILT}/resolve_go", "{name}", "{token}")

    def test_node(self):
        for way in ("cares", "lookup"):
            with self.subTest(way=way):
                self.check("node", f"{HERE}/resolve.js", way, "{name}", "{token}")

    def test_busybox(self):
        status, output = self.run_inside("busybox", "nslookup", NAME)
        self.assertEqual(status, 0, output)
        self.assertIn(A4, output)
        self.assertIn(A6, output.lower())
        self.assert_connects(self.inside, A4, A6)
        self.check_denied("busybox", "nslookup", "{name}", unresolved="NXDOMAIN")


class Dig(ClientTest):
    def dig(self, *words, server=NOBODY4):
        status, output = self.run_inside("dig", f"@{server}", "+tries=1", "+time=5", *words)
        self.assertEqual(status, 0, output)
        return output

    @staticmethod
    def statuses(output):
        return re.findall(r"status: (\w+)", output)

    @staticmethod
    def answers(output):
        return re.findall(r"\sIN\s+(?:A|AAAA)\s+(\S+)$", output, re.MULTILINE)

    def denied_leaves_nothing(self, *words, server=NOBODY4):
        self.server.queries()
        self.capture.drain()
        output = self.dig(SECRET, *words, server=server)
        self.assertEqual(self.statuses(output), ["NXDOMAIN"], output)
        self.assert_nothing_left()
        return output

    def test_ways(self):
        for words in ((), ("+tcp",), ("+bufsize=4096",), ("+noedns",), ("+noedns", "+tcp"),
                      ("+dnssec",), ("+cookie",), ("+nocookie", "+bufsize=512"), ("+padding=128",),
                      ("+norecurse",), ("+adflag", "+cdflag")):
            for server in (NOBODY4, NOBODY6):
                with self.subTest(words=words, server=server):
                    output = self.dig(NAME, *words, server=server)
                    self.assertEqual((self.statuses(output), self.answers(output)),
                                     (["NOERROR"], [A4]), output)
                    self.assertIn(f"SERVER: {server}#53", output)
                    self.denied_leaves_nothing(*words, server=server)
        self.assert_connects(self.inside, A4)

    def test_extended_error(self):
        output = self.denied_leaves_nothing()
        self.assertRegex(output, r"EDE: 17 \(Filtered\): \(.+\)")
        self.assertNotIn("EDE", self.denied_leaves_nothing("+noedns"))

    def test_denied_name_second_on_one_connection(self):
        self.server.queries()
        output = self.dig("+tcp", "+keepopen", NAME, SECRET, MANY, SECRET, NAME)
        self.assertEqual(self.statuses(output),
                         ["NOERROR", "NXDOMAIN", "NOERROR", "NXDOMAIN", "NOERROR"], output)
        self.assertNotIn(SECRET, self.server.names())
        self.assertEqual(len(set(re.findall(r"SERVER: (\S+)", output))), 1)

    def test_an_answer_that_is_too_long(self):
        """40 addresses do not fit without EDNS; 250 not even with it, nor upstream."""
        for name, addresses, words in ((MANY, MANY_ADDRESSES, ("+noedns",)),
                                       (HUGE, HUGE_ADDRESSES, ("+bufsize=1232",))):
            with self.subTest(name=name):
                cut = self.dig(name, "+ignore", *words)
                self.assertRegex(cut, r"flags:[^;]* tc")
                self.assertLess(len(self.answers(cut)), len(addresses))
                whole = self.dig(name, *words)
                self.assertIn("Truncated, retrying in TCP mode", whole)
                self.assertCountEqual(self.answers(whole), addresses)
                outcomes = self.inside("attempt", *addresses)
                self.assertEqual(set(outcomes.values()), {"ok"}, outcomes)
        self.assertCountEqual(self.answers(self.dig(MANY, "+notcp", "+bufsize=1232")),
                              MANY_ADDRESSES)

    def test_upstream_truncates(self):
        """The upstream insists on TCP."""
        self.server.rule("tc.example.com", lambda name, kind, _: Reply(
            [a(name, A4)] if kind == "A" else [], truncated=True))
        inside = self.client(policy(run=allowlist("tc.example.com")))
        self.assert_resolves(inside, "tc.example.com", A4)
        self.assert_connects(inside, A4)


if __name__ == "__main__":
    main()
