# SPDX-License-Identifier: Apache-2.0
"""dnsmasq in the server's namespace, on the resolver's addresses, with a query log."""

import subprocess

import cgroups
from lab import A4, A6, B4, B6, R4, R6
from phasegate import LIMIT, dying_with_us, started

NAME, OTHER, MISSING = "allowed.example.com", "other.example.com", "missing.example.com"
HOSTS = {NAME: (A4, A6), OTHER: (B4, B6)}


class Nameserver:
    def __init__(self, lab, port=53, hosts=None, options=("--log-queries",)):
        words = ["dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv",
                 "--no-hosts", "--pid-file=", "--log-facility=-",
                 "--bind-interfaces", "--except-interface=lo", f"--port={port}",
                 f"--listen-address={R4}", f"--listen-address={R6}", "--user=root",
                 "--local=/example.com/",
                 *("--host-record=" + ",".join((name, *addresses))
                   for name, addresses in (hosts or HOSTS).items()), *options]
        self.process = subprocess.Popen(dying_with_us(*lab.server.command(*words)),
                                        stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
        started.add(self.process.pid)
        # It changes its capabilities, which makes the kernel forget whom to die with.
        self._cgroup = cgroups.path_of(cgroups.make(f"dns{self.process.pid}"))
        with open(self._cgroup + "/cgroup.procs", "w", encoding="ascii") as file:
            file.write(str(self.process.pid))
        lab.stack.callback(self.close)
        self._log = []
        self._read_until("started, version")

    def _read_until(self, text):
        for line in iter(self.process.stderr.readline, b""):
            self._log.append(line.decode(errors="replace"))
            if text in self._log[-1]:
                return
        raise AssertionError("dnsmasq ended: " + "".join(self._log))

    def queries(self, fence):
        """Names asked since the last call. fence() must make it log a query for fence.invalid."""
        fence()
        self._read_until("query[A] fence.invalid")
        names = [line.split("query[")[1].split()[1].lower()
                 for line in self._log if "query[" in line]
        self._log.clear()
        return [name for name in names if name != "fence.invalid"]

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(LIMIT)
        self.process.stderr.close()
        cgroups.remove(self._cgroup, "cgroup2")
