# SPDX-License-Identifier: Apache-2.0
"""10,000 switches between two allowlists under traffic: nothing sent after the return of a switch
arrives where the phase forbids it. The work is done by switches.c."""

from harness import LabTest, main
from lab import A4, A6, B4, B6

SWITCHES = 10000


class Switches(LabTest):
    def test_nothing_leaks(self):
        self.run_program("switches", self.lab.server.path, A4, B4, A6, B6, str(SWITCHES))


if __name__ == "__main__":
    main()
