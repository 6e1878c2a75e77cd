# SPDX-License-Identifier: Apache-2.0
"""Owners of kept Environments (keeper.c) that are killed, and clients inside that go on."""

import ctypes
import json
import os
import subprocess

import cgroups
import steps
from dnslab import DNSCLIENT, PYTHON, Client, with_resolv_conf
from lab import R4
from phasegate import PROBE, Run

BPFFS, RECORDS = "/sys/fs/bpf", "/run/phasegate"
PINS = BPFFS + "/phasegate-kept"
PARENT = f"{cgroups.PREFIX}{os.getpid()}-kept"
CLONE_NEWNS = 0x00020000


def isolate():
    """Records and pins of our own: other starts of Phasegate neither see nor end what is kept."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS) < 0:
        raise OSError(ctypes.get_errno(), "unshare")
    # A mount on the records themselves would go when somebody else removes the directory.
    for words in (["--make-rprivate", "/"], ["-t", "tmpfs", "tmpfs", os.path.dirname(RECORDS)],
                  ["-t", "bpf", "bpf", BPFFS]):
        subprocess.run(["mount", *words], check=True)
    os.mkdir(RECORDS, mode=0o700)


class Keeper(Run):
    def __init__(self, lab, stop_at=None, operator=(), pins=PINS, parent=PARENT):
        super().__init__(lab, command=[
            os.path.join(os.path.dirname(PROBE), "netns_keeper"), pins, parent, R4, *operator],
            environment=steps.stop_at(stop_at) if stop_at else None)

    def post(self, *words):
        self.process.stdin.write("\t".join(words).encode() + b"\n")
        self.process.stdin.flush()

    def answer(self):
        return json.loads(self.line())

    def __call__(self, *words):
        self.post(*words)
        answer = self.answer()
        assert answer["ok"], (words, answer, self.stderr)
        return answer

    def refused(self, *words):
        self.post(*words)
        answer = self.answer()
        assert not answer["ok"], (words, answer)
        return answer["errno"]


class Inside(Client):
    """dnsclient.py in a cgroup, without anybody who runs it. before: words that execute the words
    after them, inside."""

    def __init__(self, lab, cgroup, conf, before=()):
        Run.__init__(self, lab, command=[
            "sh", "-c", 'echo $$ >"$0" && exec "$@"', f"{cgroups.path_of(cgroup)}/cgroup.procs",
            *before, *with_resolv_conf(conf, PYTHON, DNSCLIENT)])
        self("pid")
