#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""completions/phasegate.bash against the program: test_completion.py BINARY COMPLETIONS."""

import os
import subprocess
import tempfile
import unittest

from cli import BINARY, VECTORS as COMPLETIONS, main, phasegate

# Reads words from its arguments and prints what could come in place of the last one.
SCRIPT = """
set -u
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
_phasegate
printf '%s\\n' "${COMPREPLY[@]}"
"""
ENV = ("create", "list", "show", "phase", "update", "destroy")
COMMANDS = (("check",), ("run",), ("doctor",), ("debug",), ("events",), ("explain",), ("verify",),
            ("seccomp",),
            *(("env", word) for word in ENV))
# What stands before an option of the command, so that the option is what decides.
WHOLE = {("env", "create"): ("n", "--policy", "{}"), ("env", "phase"): ("n", "run"),
         ("explain",): ("n", "h"), ("verify",): ("n",)}


class Completion(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory(prefix="pgt-completion-")
        cls.addClassCleanup(cls.directory.cleanup)
        os.symlink(os.path.abspath(BINARY), f"{cls.directory.name}/phasegate")

    def complete(self, *words):
        done = subprocess.run(
            ["bash", "--norc", "-c", SCRIPT, "bash", COMPLETIONS / "phasegate.bash", "phasegate",
             *words], capture_output=True, text=True, timeout=60, check=False,
            env={**os.environ, "PATH": f"{self.directory.name}:{os.environ['PATH']}",
                 "PHASEGATE_SOCKET": f"{self.directory.name}/none"})
        self.assertEqual((done.returncode, done.stderr), (0, ""), words)
        return done.stdout.split()

    def test_commands(self):
        self.assertEqual(self.complete(""), ["check", "run", "doctor", "debug", "env", "events",
                                             "explain", "verify", "seccomp", "--help",
                                             "--version"])
        self.assertEqual(self.complete("do"), ["doctor"])
        self.assertEqual(self.complete("env", ""), [*ENV, "--help"])

    def test_options_exist(self):
        for command in COMMANDS:
            options = self.complete(*command, "--")
            self.assertIn("--log-level", options)
            self.assertIn("--help", options)
            for option in options:
                self.assertNotIn("there is no option", phasegate(*command, option).stderr)

    def test_options_are_complete(self):
        """Each that the man page has for a command of the agent is there."""
        for command, options in (
                (("env", "create"), "policy allow env-params cgroup pid container runtime attach "
                 "phase verifier member-traffic dns-settings no-denial-events accept socket json"),
                (("env", "phase"), "expect-generation survivors lease then socket json"),
                (("env", "update"), "policy allow env-params expect-generation"),
                (("env", "destroy"), "kill release"), (("events",), "follow env cursor"),
                (("explain",), "phase"), (("verify",), "allowed blocked")):
            self.assertLessEqual({f"--{option}" for option in options.split()},
                                 set(self.complete(*command, "--")), command)

    def test_values_are_accepted(self):
        for command, option in (
                (("env", "create"), "--phase"), (("env", "create"), "--verifier"),
                (("env", "create"), "--member-traffic"), (("env", "create"), "--runtime"),
                (("env", "phase"), "--survivors"), (("explain",), "--phase"),
                (("verify",), "--log-level"), (("verify",), "--file-log-level")):
            values = self.complete(*command, option, "")
            self.assertGreater(len(values), 1, option)
            for value in values:
                done = phasegate(*command, *WHOLE[command], option, value, "--socket",
                                 f"{self.directory.name}/none")
                self.assertEqual(done.returncode, 5, done.stderr)
        for value in self.complete("env", "phase", "n", "run", "--lease", "3", "--then", ""):
            done = phasegate("env", "phase", "n", "run", "--lease", "3", "--then", value,
                             "--socket", f"{self.directory.name}/none")
            self.assertEqual(done.returncode, 5, done.stderr)

    def test_places(self):
        self.assertEqual(self.complete("env", "phase", "n", ""), ["setup", "run", "verifier"])
        self.assertEqual(self.complete("env", "phase", "--lease", "5", "n", "r"), ["run"])
        self.assertEqual(self.complete("env", "show", ""), [])
        self.assertEqual(self.complete("run", "--policy", "{}", "--", "--"), [])
        self.assertEqual(self.complete("run", "--phase", "v"), ["verifier"])


if __name__ == "__main__":
    main()
