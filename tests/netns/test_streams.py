# SPDX-License-Identifier: Apache-2.0
"""Open connections at a switch: the forbidden end at once, also those that race it; the allowed
lose nothing. The work is done by streams.c."""

from harness import LabTest, main
from lab import A4, A6, D4, D6

TRIES = 1000


class Streams(LabTest):
    def check(self, allowed, denied, tries):
        self.run_program("streams", self.lab.server.path, allowed, denied, str(tries))

    def test_ipv4(self):
        self.check(A4, D4, TRIES)

    def test_ipv6(self):
        self.check(A6, D6, TRIES // 5)


if __name__ == "__main__":
    main()
