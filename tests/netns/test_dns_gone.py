# SPDX-License-Identifier: Apache-2.0
"""Who asked has gone when the answer comes: with the listener, or with the namespace."""

import time

from dnslab import NOBODY4, DnsTest
from dnsserver import Reply, a
from harness import main
from lab import A4
from phasegate import allowlist, policy
from recorder import DNS_PORT

QUICK, SLOW = "quick.example.com", "slow.example.com"
DELAY_S = 3


class Gone(DnsTest):
    def setUp(self):
        super().setUp()
        self.server.host(QUICK, A4)
        self.server.rule(SLOW, lambda name, *_: Reply((a(name, A4),), delay=DELAY_S))
        self.inside = self.client(policy(run=allowlist(QUICK, "*.example.com")))

    def wait_for_question(self):
        self.wait_for(lambda: SLOW in self.asked(), about="it is not asked")
        return time.monotonic()

    def assert_goes_on(self, asked):
        """The answer finds nobody, and what comes after it is no worse for that."""
        time.sleep(max(0, asked + DELAY_S + 0.5 - time.monotonic()))
        self.wait_for(lambda: self.inside("ask", NOBODY4, QUICK, limit=1).get("addresses") == [A4])
        self.assert_connects(self.inside, A4)
        self.assertEqual(self.inside.end()["dns"]["cancelled"], 1)

    def test_with_the_listener(self):
        self.inside("open_datagrams", "one", NOBODY4, DNS_PORT)
        self.inside("send_question", "one", SLOW)
        asked = self.wait_for_question()
        result = self.inside("run", "ss", "-K", "-u", "-a", "src", "127.77.0.0/16")
        self.assertEqual(result["status"], 0, result)
        self.assert_goes_on(asked)

    def test_with_the_namespace(self):
        self.inside.post("run", "unshare", "--net", "sh", "-c",
                         "ip link set lo up; exec dig +tries=1 +time=1 @%s %s" % (NOBODY4, SLOW))
        asked = self.wait_for_question()
        self.inside.answer()
        self.assert_goes_on(asked)


if __name__ == "__main__":
    main()
