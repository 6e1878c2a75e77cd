# SPDX-License-Identifier: Apache-2.0
"""The unit of systemd: made of the agent's own lists, and enough for it to start and to work."""

import os
import re
import unittest

import daemon
from agentcase import AgentTest
from harness import main
from phasegate import LIMIT, NO_NETWORK

UNIT, UNDER = os.environ["PHASEGATE_UNIT"], os.environ["PHASEGATE_UNDER"]
SOURCE = os.environ["PHASEGATE_SOURCE"]
# Sanitizers make calls of their own.
SANITIZED = os.environ["PHASEGATE_SANITIZE"] in ("1", "ON", "TRUE", "YES")


def names(header, prefix):
    with open(f"{SOURCE}/user/{header}", encoding="utf-8") as file:
        return re.findall(rf"[\s(]X\(({prefix}[A-Za-z0-9_]*)", file.read())


def setting(key):
    with open(UNIT, encoding="utf-8") as file:
        (value,) = re.findall(rf"^{key}=(.*)$", file.read(), re.M)
    return value.split()


class Unit(AgentTest):
    def test_lists(self):
        for key, header, prefix, least in (
                ("SystemCallFilter", "agent/syscalls.h", "[a-z]", 100),
                ("CapabilityBoundingSet", "agent/privileges.h", "CAP_", 7),
                ("RestrictAddressFamilies", "sandbox/service.h", "AF_", 4)):
            self.assertEqual(set(setting(key)), set(names(header, prefix)))
            self.assertGreaterEqual(len(setting(key)), least)

    @unittest.skipIf(SANITIZED, "sanitizers make system calls of their own")
    def test_enough(self):
        """From its first instruction on; it starts once more to adopt what it has made."""
        own = daemon.DAEMON
        wrapper = f"{self.daemon.directory.name}/phasegated"
        with open(wrapper, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nexec {UNDER} {UNIT} {own} "$@"\n')
        os.chmod(wrapper, 0o755)
        self.daemon.stop()
        daemon.DAEMON = wrapper
        self.addCleanup(setattr, daemon, "DAEMON", own)
        self.daemon.start()
        made = self.create({"network_policy": NO_NETWORK})
        self.assertEqual(self.daemon.phase(made["name"], "run").status, 200)
        self.daemon.kill()
        self.daemon.start()
        self.assertEqual(self.daemon.show(made["name"])["phase"], "run")
        self.assertEqual(self.daemon.destroy(made["name"]).status, 200)
        self.assertIn("makes only the", self.daemon.output)
        self.assertEqual(self.daemon.stop(), 0)
        daemon.DAEMON = own
        self.daemon.start()


if __name__ == "__main__":
    main()
