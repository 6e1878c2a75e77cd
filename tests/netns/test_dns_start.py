# SPDX-License-Identifier: Apache-2.0
"""Names at the start: resolved before the command runs, with warnings that say what did not go
well, and nameservers in every form."""

import signal
import time

import vectors
from dnslab import NOBODY4, DnsTest, with_resolv_conf
from dnsserver import Reply, a
from harness import main
from lab import A4, A6, D4, D6, R4, R6, mapped
from nameserver import NAME, Nameserver
from phasegate import NO_NETWORK, allowlist, policy
from recorder import PORT

MISSING = "missing.example.com"
NAMES = policy(setup=allowlist(A4), run=allowlist(NAME), verifier=NO_NETWORK)
# Nobody has this address.
SILENT = "198.51.100.99"


class Start(DnsTest):
    def setUp(self):
        super().setUp()
        self.server.host(NAME, A4, A6)

    def test_addresses_are_open_before_anything_is_asked(self):
        for resolver in (R4, R6, f"{R4}:53", f"[{R6}]:53"):
            with self.subTest(resolver=resolver), \
                    self.agent("--policy", NAMES, "--resolver", resolver) as agent:
                self.assertIn(NAME, self.asked())
                for address in (A4, A6, mapped(A4)):
                    self.assert_reaches(agent, vectors.tcp, address, PORT)
                    self.assert_reaches(agent, vectors.udp_sendto, address, PORT)
                for address in (D4, D6, mapped(D4)):
                    self.assert_denied(agent, vectors.tcp, address, PORT)
                self.assert_silent(D4, D6)

    def test_names_of_all_phases(self):
        self.server.host("verify.example.com", D4)
        text = policy(setup=allowlist(A4), run=allowlist(NAME),
                      verifier=allowlist("verify.example.com", "*.example.org"))
        inside = self.client(text)
        self.assertEqual(inside("attempt", A4, D4), {A4: "ok", D4: "EPERM"})
        inside = self.client(text, "--phase", "verifier")
        self.assertEqual(inside("attempt", A4, D4), {A4: "EPERM", D4: "ok"})

    def test_dnsmasq(self):
        """A nameserver that others have written."""
        Nameserver(self.lab, 5300)
        inside = self.client(policy(run=allowlist(NAME)), resolver=f"{R4}:5300")
        self.assert_resolves(inside, NAME, A4, A6)
        self.assert_resolves(inside, NAME, A4, A6, tcp=True)
        self.assert_connects(inside, A4, A6)

    def test_the_hosts_nameservers(self):
        """Without --resolver, those of resolv.conf; loopback ones as well."""
        local = self.nameserver(("127.0.0.53",))
        local.host(NAME, A4)
        for servers in (("127.0.0.53",), (R4,), (SILENT, R4), ("127.0.0.53", R4)):
            with self.subTest(servers=servers):
                conf = self.file("host", "".join(f"nameserver {s}\n" for s in servers))
                inside = self.client(policy(run=allowlist(NAME)), resolver=None,
                                     through=with_resolv_conf(conf))
                self.assert_resolves(inside, NAME, A4, limit=10)
                self.assert_connects(inside, A4)

    def warnings(self, code, *names, options=()):
        run = self.run_command("--policy", policy(run=allowlist(*names)), "--resolver", R4,
                               *options, "--", "true")
        self.assertEqual(run.finish()[0], 0, run.stderr)
        self.assertEqual([e for e in run.events if e["event"] == "error"], [])
        return [e["message"] for e in run.events if e["event"] == "warning" and e["code"] == code]

    def test_a_name_that_does_not_resolve_is_a_warning(self):
        (message,) = self.warnings("unresolved", MISSING, NAME)
        self.assertIn(MISSING, message)
        self.assertEqual(self.warnings("unresolved", NAME, "*.example.com", A4), [])
        self.server.rule("broken.example.com", lambda *_: Reply(rcode=2))
        (message,) = self.warnings("unresolved", "broken.example.com", NAME)
        self.assertIn("broken.example.com", message)

    def test_few_warnings_for_many_names(self):
        for count in (10, 11, 30):
            names = [f"missing{i:02}.example.com" for i in range(count)]
            messages = self.warnings("unresolved", NAME, *names)
            self.assertEqual(len(messages), min(count, 11))
            if count > 10:
                self.assertIn(str(count - 10), messages[10])

    def test_more_addresses_than_there_is_room_for(self):
        for i in range(6):
            self.server.rule(f"many{i}.example.com", lambda name, kind, _: [
                a(name, f"198.18.{name[4]}.{n}") for n in range(1, 31)] if kind == "A" else [])
        names = [f"many{i}.example.com" for i in range(6)]
        messages = self.warnings("learned_full", *names, options=("--dns", "addresses=100"))
        self.assertGreaterEqual(len(messages), 1)
        self.assertLessEqual(len(messages), len(names))

    def test_a_silent_nameserver_does_not_block_the_start(self):
        """No one has its address; loading takes at most 5 s. What it would have said is denied."""
        inside = self.client(policy(run=allowlist(NAME)), resolver=SILENT)
        (start,) = [event for event in inside.events if event["event"] == "start"]
        self.assertLess(start["names_us"], 7_000_000, inside.stderr)
        self.assertTrue(inside.warnings("unresolved"))
        self.assert_refused(inside, A4)
        self.assert_denied_name(inside, MISSING)

    def test_a_slow_nameserver_does_not_lose_the_quick_names(self):
        self.server.rule("slow.example.com", lambda *_: Reply(silent=True))
        inside = self.client(policy(run=allowlist("slow.example.com", NAME)))
        self.assert_connects(inside, A4)
        self.assertIn("slow.example.com", "".join(inside.warnings("unresolved")))

    def test_a_signal_ends_the_wait_for_names(self):
        run = self.run_command("--policy", NAMES, "--resolver", SILENT, "--", "true")
        # The question is on its way: the wait for its answer, which never comes, has begun.
        while not self.capture.to(SILENT):
            self.assertIsNone(run.process.poll(), run.stderr)
        started = time.monotonic()
        run.process.terminate()
        self.assertEqual(run.finish()[0], 128 + signal.SIGTERM, run.stderr)
        self.assertLess(time.monotonic() - started, 3)

    def test_report(self):
        """The phase's figures: each question is counted once."""
        inside = self.client(policy(run=allowlist(NAME)))
        for _ in range(3):
            self.assert_resolves(inside, NAME, A4)
        for _ in range(2):
            self.assert_denied_name(inside, "secret.example.net")
        self.assertEqual(inside("ask", NOBODY4, NAME, "ANY")["rcode"], "REFUSED")
        report = inside.end()["dns"]
        self.assertEqual({key: report[key] for key in ("queries", "answered", "denied", "failed",
                                                       "overload")},
                         {"queries": 6, "answered": 3, "denied": 3, "failed": 0, "overload": 0})


if __name__ == "__main__":
    main()
