#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cmake --install, and what others find there: programs, manual pages, units, settings, the Python
module, and a library that a program needs nothing of this source tree for."""

import filecmp
import os
import re
import shutil
import subprocess
import sys
import tempfile

from agentcase import AgentTest
from harness import main
from phasegate import LIMIT

SOURCE, BUILD = os.environ["PHASEGATE_SOURCE"], os.environ["PHASEGATE_BUILD"]
PREFIX = os.environ["PREFIX"]
EXAMPLE = re.compile(r"^```c\n(.*?)^```$", re.M | re.S)
FILES = ("bin/phasegate", "sbin/phasegated", "include/phasegate/phasegate.h",
         "lib/systemd/system/phasegated.service", "lib/systemd/system/phasegated.socket",
         "lib/sysusers.d/phasegate.conf", "share/bash-completion/completions/phasegate",
         "share/doc/phasegate/phasegated.conf", "share/doc/phasegate/openapi.yaml")
PAGES = ("man1/phasegate.1", "man3/libphasegate.3", "man8/phasegated.8")


class Install(AgentTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.directory = tempfile.TemporaryDirectory(prefix="pgt-install-")
        cls.addClassCleanup(cls.directory.cleanup)
        cls.output = cls.install(cls.directory.name)
        cls.root = cls.directory.name + PREFIX

    @classmethod
    def install(cls, directory):
        done = subprocess.run([os.environ["CMAKE"], "--install", BUILD], capture_output=True,
                              text=True, timeout=2 * LIMIT, check=False,
                              env={**os.environ, "DESTDIR": directory})
        if done.returncode:
            raise AssertionError(done.stdout + done.stderr)
        return done.stdout

    def find(self, pattern):
        """The one file of this name below the root."""
        found = [os.path.join(folder, name) for folder, _, names in os.walk(self.root)
                 for name in names if re.fullmatch(pattern, name)]
        self.assertEqual(len(found), 1, found)
        return found[0]

    def test_files(self):
        for name in FILES:
            self.assertTrue(os.path.exists(f"{self.root}/{name}"), f"{name}\n{self.output}")
        for name in ("bin/phasegate", "sbin/phasegated"):
            done = subprocess.run([f"{self.root}/{name}", "--version"], capture_output=True,
                                  text=True, timeout=LIMIT, check=False)
            self.assertRegex(done.stdout, r"\d+\.\d+\.\d+")
        with open(f"{self.root}/lib/systemd/system/phasegated.service", encoding="utf-8") as file:
            self.assertIn(f"ExecStart={PREFIX}/sbin/phasegated\n", file.read())

    def test_settings_are_kept(self):
        conf = f"{self.directory.name}/etc/phasegate/phasegated.conf"
        self.assertTrue(filecmp.cmp(conf, f"{SOURCE}/etc/phasegated.conf", shallow=False))
        with open(conf, "w", encoding="ascii") as file:
            file.write("{}")
        self.assertIn(f"Kept: {conf}", self.install(self.directory.name))
        with open(conf, encoding="ascii") as file:
            self.assertEqual(file.read(), "{}")

    def test_manual(self):
        if not shutil.which("lowdown"):
            self.skipTest("needs lowdown")
        for name in PAGES:
            with open(f"{self.root}/share/man/{name}", encoding="utf-8") as file:
                text = file.read()
            self.assertTrue(text.startswith("'\\\" t\n"), name)
            title, section = name.split("/")[1].split(".")
            self.assertRegex(text, rf'\.TH "{title}" "{section}"')
            self.assertRegex(text, r"\n\.SH\n?\s*NAME\n")

    def test_python(self):
        folder = os.path.dirname(os.path.dirname(self.find("sidecar.py")))
        self.assertTrue(os.path.exists(f"{folder}/phasegate/py.typed"))
        script = "import phasegate.provider, phasegate.sidecar; print(phasegate.__file__)"
        done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True,
                              text=True, timeout=LIMIT, check=False, cwd="/",
                              env={**os.environ, "PYTHONPATH": folder})
        self.assertEqual((done.stderr, done.stdout), ("", f"{folder}/phasegate/__init__.py\n"))

    def test_library(self):
        """The example of its manual, by pkg-config; the compiler knows nothing of the sources."""
        with open(f"{SOURCE}/docs/libphasegate.3.md", encoding="utf-8") as file:
            example, = EXAMPLE.findall(file.read())
        program = self.directory.name + "/example"
        with open(program + ".c", "w", encoding="ascii") as file:
            file.write(example)
        about = os.path.dirname(self.find(r"phasegate\.pc"))
        words = subprocess.run(
            ["pkg-config", "--cflags", "--libs", "phasegate"], capture_output=True, text=True,
            timeout=LIMIT, check=True,
            env={**os.environ, "PKG_CONFIG_PATH": about,
                 "PKG_CONFIG_SYSROOT_DIR": self.directory.name}).stdout.split()
        subprocess.run([os.environ["CC"], "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
                        "-o", program, program + ".c", *os.environ["CFLAGS"].split(), *words],
                       cwd=self.directory.name, timeout=2 * LIMIT, check=True)
        environment = {**os.environ, "LD_LIBRARY_PATH": os.path.dirname(about),
                       "PHASEGATE_SOCKET": self.daemon.socket}
        cursor = self.daemon.call("GET", "/v1/events?cursor=now").body[-1]["cursor"]
        name = self.name("c")
        done = subprocess.run([program, name], capture_output=True, text=True, timeout=LIMIT,
                              check=False, env=environment)
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (0, "generation 2, allowed\n", ""))
        events = self.daemon.call("GET", f"/v1/events?cursor={cursor}&environment={name}").body
        self.assertEqual([e["event"] for e in events[:-1]], ["created", "phase", "destroyed"])
        done = subprocess.run([program, "a/b"], capture_output=True, text=True, timeout=LIMIT,
                              check=False, env=environment)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"^/name: .* \(name_invalid\); use 1 to 64 ")


if __name__ == "__main__":
    main()
