# SPDX-License-Identifier: Apache-2.0
"""Base of the agent's tests: a lab, a recorder, and one agent for each test class."""

import contextlib
import itertools
import os

from daemon import Daemon, start_in, wait_in
from harness import NetTest
from phasegate import reap_orphans

# Settings by which whatever the host is exposed to is listed, and refused to nobody.
ALL_LISTED = dict.fromkeys(
    ("privileged", "host_pid_ptrace", "host_pid", "host_files", "bpf_files", "cgroup_writable",
     "proc_writable", "cap_sys_admin", "cap_sys_module", "cap_sys_rawio", "cap_dac_read_search",
     "cap_bpf", "cap_net_admin", "unguarded_link", "device_host", "device_kvm", "device_tun",
     "device_vhost", "host_socket", "runtime_socket", "vsock"), "list")

_numbers = itertools.count(1)


class AgentTest(NetTest):
    SETTINGS = {}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.daemon = Daemon(cls.lab, **cls.SETTINGS)
        cls.addClassCleanup(cls.daemon.close)

    def tearDown(self):
        for name in list(self.daemon.names):
            if self.daemon.process.poll() is None:
                self.daemon.destroy(name)
            self.daemon.names.discard(name)
        super().tearDown()

    @staticmethod
    def name(label="e"):
        return f"pgt-{label}-{os.getpid()}-{next(_numbers)}"

    def create(self, policy=None, **body):
        """One that is destroyed with the test; returns what the reply says of it."""
        name = body.pop("name", None) or self.name()
        reply = self.daemon.create(name, policy=policy or {}, **body)
        self.assertEqual(reply.status, 201, reply)
        return reply.body

    def assertCode(self, reply, code, text=""):
        self.assertEqual(reply.code, code, reply)
        self.assertIn(text, reply["message"], reply)

    def start_in(self, directory, *words, **more):
        """A process of the test in a cgroup; killed with the test."""
        process = start_in(directory, *words, **more)

        def end():
            process.kill()
            process.wait()
            for file in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):
                    if file:
                        file.close()

        self.addCleanup(end)
        return process

    wait_in = staticmethod(wait_in)


__all__ = ["AgentTest", "reap_orphans"]
