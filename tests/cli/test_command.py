#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command table and the options that every command takes: test_command.py BINARY VECTORS."""

import re
import unittest

from cli import main, phasegate


COMMANDS = ("check", "run", "doctor", "debug", "env", "events", "explain", "verify", "seccomp")
WITH_OPTIONS = tuple((command,) for command in COMMANDS if command != "env") + tuple(
    ("env", word) for word in ("create", "list", "show", "phase", "update", "destroy"))


class Commands(unittest.TestCase):
    def test_version(self):
        done = phasegate("--version")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"\Aphasegate \d+\.\d+\.\d+\n\Z")

    def test_help(self):
        self.assertEqual(phasegate("-V").stdout, phasegate("--version").stdout)
        for arguments in (("--help",), ("help",), ("-h",)):
            done = phasegate(*arguments)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            for command in COMMANDS:
                self.assertTrue(re.search(rf"^  phasegate {command} ", done.stdout, re.MULTILINE))

    def test_help_of_each_command(self):
        for words in (*WITH_OPTIONS, ("env",)):
            command = " ".join(words)
            done = phasegate(*words, "--help")
            self.assertEqual(done.returncode, 0, command)
            self.assertIn(f"phasegate {command}", done.stdout)
            short = phasegate(*words, "-h")
            self.assertEqual((short.returncode, short.stdout), (0, done.stdout))

    def test_nothing(self):
        done = phasegate()
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("usage:", done.stderr)
        self.assertEqual(phasegate("check").returncode, 2)

    def test_bad_options(self):
        for name in WITH_OPTIONS:
            command = " ".join(name)
            for words, said in (
                (("--bogus",), "there is no option --bogus"),
                (("-x",), "there is no option -x"),
                (("--json=1",), "no value is taken in --json=1"),
                (("--log-file",), "--log-file needs a value"),
            ):
                if command == "seccomp" and words == ("--json=1",):
                    continue  # it prints nothing but JSON
                done = phasegate(*name, *words)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertRegex(done.stderr, r"\Aphasegate: (error: )?" + f"{command}: {said}; ")
                self.assertIn(f"phasegate {command} --help explains", done.stderr)

    def test_run_options_that_can_be_given_once(self):
        for option in ("--setup", "--run", "--verify", "--phase", "--cgroup"):
            value = "run" if option == "--phase" else "true"
            done = phasegate("run", "--policy", "{}", option, value, option, value)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"{option} is given twice", done.stderr)

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
