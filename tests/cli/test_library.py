#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The shared library as others see it: test_library.py CONSUMER LIBRARY HEADER."""

import pathlib
import re
import subprocess
import sys
import unittest

CONSUMER, LIBRARY, HEADER = sys.argv[1:]


class Library(unittest.TestCase):
    def test_consumer(self):
        done = subprocess.run([CONSUMER, "/nonexistent/agent.sock"], capture_output=True,
                              text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout), (1, "agent_unreachable\n"), done.stderr)

    def test_symbols_are_those_of_the_header(self):
        lines = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], capture_output=True,
                               text=True, check=True).stdout.splitlines()
        # Sanitizers add data of their own.
        symbols = {line.split()[2] for line in lines if line.split()[1] == "T"}
        text = pathlib.Path(HEADER).read_text(encoding="utf-8")
        declared = re.findall(r"^PHASEGATE_(?:API|CALL) [^;(]*?(\w+)\(", text, re.MULTILINE)
        self.assertEqual(symbols, set(declared))

    def test_every_function_is_described(self):
        text = pathlib.Path(HEADER).read_text(encoding="utf-8")
        for name in re.findall(r"^PHASEGATE_(?:API|CALL) [^;(]*?(\w+)\(", text, re.MULTILINE):
            self.assertRegex(text, r"\*/\n(?:PHASEGATE_[^\n]*\n(?:\t[^\n]*\n)*)??PHASEGATE_\w+ [^;(]*\b"
                             + name + r"\(")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
