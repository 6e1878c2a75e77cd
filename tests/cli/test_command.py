#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command table and the options that every command takes: test_command.py BINARY VECTORS."""

import re
import unittest

from cli import main, phasegate


class Commands(unittest.TestCase):
    def test_version(self):
        done = phasegate("--version")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"\Aphasegate \d+\.\d+\.\d+\n\Z")

    def test_help(self):
        for arguments in (("--help",), ("help",), ("-h",)):
            done = phasegate(*arguments)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            for command in ("check", "run", "doctor"):
                self.assertTrue(re.search(rf"^  phasegate {command} ", done.stdout, re.MULTILINE))

    def test_help_of_each_command(self):
        for command in ("check", "run", "doctor"):
            done = phasegate(command, "--help")
            self.assertEqual(done.returncode, 0, command)
            self.assertIn(f"phasegate {command}", done.stdout)

    def test_nothing(self):
        done = phasegate()
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("usage:", done.stderr)
        self.assertEqual(phasegate("check").returncode, 2)

    def test_unknown(self):
        done = phasegate("chekc")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn('did you mean "check"?', done.stderr)
        done = phasegate("\x1b[31m")
        self.assertEqual(done.returncode, 2)
        self.assertNotIn("\x1b", done.stderr)
        done = phasegate("check", "--jsno")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--jsno", done.stderr)
        done = phasegate("check", "--policy", "{}", "--log-level", "loud")
        self.assertEqual(done.returncode, 2)
        self.assertIn('not "loud"', done.stderr)


if __name__ == "__main__":
    main()
