# SPDX-License-Identifier: Apache-2.0
"""`phasegate run` is killed, and something of the Environment survives: what was denied stays
denied, what was learned stays usable until it expires, and resolving fails at once. Runs alone: the
next start of any `phasegate run` ends what has survived. So may one of somebody else on the machine;
then it is tried again."""

import time

from dnslab import NOBODY4, NOBODY6, DnsTest
from harness import main
from lab import A4, A6, D4
from phasegate import PUBLIC, allowlist, policy

WWW, OTHER, SECRET = "www.example.com", "other.example.com", "secret.example.net"
# The command dies with Phasegate; what it has started in the background does not.
ATTEMPTS = 10
SURVIVING = ("sh", "-c", 'exec 3<&0; "$@" <&3 3<&- & wait', "-")


class Kill(DnsTest):
    def setUp(self):
        super().setUp()
        self.server.host(WWW, A4, A6, ttl=1)
        self.server.host(SECRET, D4)

    def survivor(self, document, *options):
        """Without its Phasegate."""
        inside = self.client(document, *options, before=SURVIVING)
        self.assert_resolves(inside, WWW, A4, A6)
        self.assert_connects(inside, A4)
        self.assertEqual(inside("open_stream", "kept", A4)["errno"], "")
        return inside

    def kill(self, inside):
        inside.process.kill()
        inside.process.wait()
        self.server.queries()
        self.capture.drain()
        return time.monotonic()

    def assert_nobody_answers(self, inside):
        for server in (NOBODY4, NOBODY6, "127.0.0.11"):
            for name in (WWW, SECRET):
                for way in ({"connected": True}, {"tcp": True}):
                    reply = inside("ask", server, name, **way)
                    self.assertEqual(reply["errno"], "ECONNREFUSED", (server, way, reply))
                    self.assertLess(reply["ms"], 500)
        found = inside("lookup", WWW)
        self.assertIn(found["error"], ("EAI_AGAIN", "EAI_NONAME"), found)
        self.assertLess(found["ms"], 1000)
        self.assert_nothing_left()

    def try_until_nobody_disturbs(self, scenario, *options):
        """scenario(survivor, the time of the kill)"""
        for attempt in range(1, ATTEMPTS + 1):
            inside = self.survivor(*options)
            killed = self.kill(inside)
            try:
                scenario(inside, killed)
                return
            except AssertionError as error:
                # What an agent says whose output has ended.
                if not str(error).startswith("no output") or attempt == ATTEMPTS:
                    raise

    def test_allowlist(self):
        self.try_until_nobody_disturbs(self.allowlist, policy(run=allowlist(WWW)), "--dns",
                                       "floor=3", "--dns", "grace=0")

    def allowlist(self, inside, killed):
        self.assert_connects(inside, A4, A6)
        self.assert_refused(inside, D4)
        self.assert_nobody_answers(inside)
        self.assertLess(self.wait_refused(inside, A4, killed), 8)
        self.assertEqual(inside("send", "kept", "after")["errno"], "")
        self.assertIsNotNone(self.recorder.wait("after"))
        self.assert_refused(inside, D4)
        self.assert_nobody_answers(inside)

    def test_public(self):
        """Nothing is let out to a nameserver in place of the resolver that is gone."""
        self.try_until_nobody_disturbs(self.public, policy(setup=PUBLIC, run=allowlist(WWW)),
                                       "--phase", "setup")

    def public(self, inside, _):
        self.assert_connects(inside, A4, D4)
        self.assert_nobody_answers(inside)

    def test_the_next_start_ends_what_survived(self):
        inside = self.survivor(policy(run=allowlist(WWW)))
        pid = inside("pid")
        self.kill(inside)
        self.assertEqual(inside("pid"), pid)
        again = self.client(policy(run=allowlist(WWW)))
        self.assert_resolves(again, WWW, A4)
        self.assertRaises(AssertionError, inside, "pid")


if __name__ == "__main__":
    main()
