# SPDX-License-Identifier: Apache-2.0
"""Many network namespaces of one Environment at once, as a group of containers has them."""

import json

from dnslab import DNSCLIENT, NOBODY4, PYTHON, DnsTest
from harness import main
from lab import A4, R4
from phasegate import LIMIT, allowlist, policy

NAME = "allowed.example.com"
# user/environment/dns.h; one is that of `phasegate run` itself.
SITES_MAX = 64
# Each namespace stays until the sleeper ends. printf writes its line at once.
PROGRAM = """sleep 1000 & sleeper=$!
for i in $(seq "$1"); do
	unshare --net sh -c 'ip link set lo up
		printf "%s\\n" "$("$@")"
		exec tail --pid="$0" -f /dev/null' $sleeper "$2" "$3" "$4" &
done
read end
kill $sleeper"""


class Sites(DnsTest):
    def setUp(self):
        super().setUp()
        self.server.host(NAME, A4)

    def ask_in(self, count, limit):
        """The replies in as many namespaces, where each asks once."""
        question = json.dumps(["ask", [NOBODY4, NAME], {"limit": limit}])
        run = self.run_command("--policy", policy(run=allowlist(NAME)), "--resolver", R4, "--",
                               "sh", "-c", PROGRAM, "-", str(count), PYTHON, DNSCLIENT, question)
        replies = [json.loads(run.process.stdout.readline()) for _ in range(count)]
        self.assertEqual(run.finish(b"end\n")[0], 0, run.stderr)
        return replies, [event["message"] for event in run.events
                         if event["event"] == "warning" and event["code"] != "kept"]

    def test_each_first_question_has_an_answer(self):
        replies, warnings = self.ask_in(30, LIMIT / 2)
        self.assertEqual([reply.get("addresses") for reply in replies], [[A4]] * 30)
        self.assertEqual(warnings, [])

    def test_more_than_are_served(self):
        replies, warnings = self.ask_in(SITES_MAX + 6, 4)
        served = [reply for reply in replies if reply.get("addresses") == [A4]]
        self.assertGreater(len(served), SITES_MAX / 2)
        self.assertLess(len(served), SITES_MAX)
        self.assertEqual(len(warnings), 1, warnings)
        self.assertIn(f"more than {SITES_MAX} network namespaces", warnings[0])


if __name__ == "__main__":
    main()
