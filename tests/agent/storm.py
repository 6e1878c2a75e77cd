# SPDX-License-Identifier: Apache-2.0
"""What a harness knows of its Environments while their agent is killed at random, and the judge of
every packet that arrives: forbidden is one that no state allowed which was, or may have been, in
force between the beginning of its sending and its arrival. In doubt between two states is only the
time of a call in flight."""

import bisect
import collections
import contextlib
import os
import socket
import struct
import time

from lab import A4, B4, D4
from phasegate import NO_NETWORK, PHASES, PUBLIC, allowlist
from recorder import Capture, parse

SENDER = os.environ.get("PHASEGATE_SENDER", "sender")
TARGETS = (A4, B4, D4)
WWW = "www.example.com"
# By version: what is allowed of the targets in each phase. The name's address is none of them.
POLICIES = (
    {"network_policy": allowlist(A4, WWW), "run_network_policy": allowlist(B4, WWW),
     "verifier_network_policy": NO_NETWORK},
    {"network_policy": PUBLIC, "run_network_policy": allowlist(A4, B4, WWW),
     "verifier_network_policy": allowlist(A4)},
)
ALLOWED = (
    {"setup": {A4}, "run": {B4}, "verifier": set()},
    {"setup": set(TARGETS), "run": {A4, B4}, "verifier": {A4}},
)
MODES = tuple({phase: mode if isinstance(mode, str) else mode["network_mode"]
               for phase, mode in zip(PHASES, version.values())} for version in POLICIES)
UNCONFINED = set(TARGETS)
SO_TIMESTAMPNS = 35
FOREVER = 1 << 63

# What the agent says of an Environment; None: there is none.
State = collections.namedtuple("State", "version phase generation")


def allowed_by(state):
    return ALLOWED[state.version][state.phase]


class Timeline:
    """Which targets are allowed, from when, until when; entries of a call in flight overlap."""

    def __init__(self, allowed):
        self.begins, self.entries = [0], [[0, FOREVER, allowed]]

    def change(self, since, until, allowed):
        """It was changed by a call between the two times."""
        self.entries[-1][1] = until
        self.begins.append(since)
        self.entries.append([since, FOREVER, allowed])

    def doubt(self, since, until, allowed):
        """A call had not changed it when it was seen next, but may have been about to."""
        self.change(since, until, allowed)
        self.entries[-1][1] = until
        before = self.entries[-2]
        self.begins.append(since)
        self.entries.append([since, FOREVER, before[2]])

    def allows(self, address, since, until):
        at = bisect.bisect_right(self.begins, until) - 1
        while at >= 0:
            begin, end, allowed = self.entries[at]
            if end >= since and address in allowed:
                return True
            # Each ends no earlier than the one before.
            if end < since:
                return False
            at -= 1
        return False


class Subject:
    """An Environment, as its harness knows it, and its timeline for the judge."""

    def __init__(self, name, number, members=()):
        self.name, self.number, self.members = name, number, members
        self.state = None
        self.directory = None
        self.sender = None
        # A given cgroup is open to everything when it is not an Environment's.
        self.free = UNCONFINED if members else set()
        self.timeline = Timeline(self.free)
        self.flight = None  # (since, what the state will be): of a call without a reply
        self.arrived = 0

    def body(self, state):
        body = {"name": self.name, "policy": POLICIES[state.version], "phase": state.phase}
        if self.members:
            body.update(members=[{"cgroup": cgroup} for cgroup in self.members], attach=True)
        return body

    def allowed(self, state):
        return self.free if state is None else allowed_by(state)

    def begin(self, wanted):
        self.flight = (time.time_ns(), wanted)

    def done(self, state):
        """The reply says so, or, after a restart, the agent."""
        now = time.time_ns()
        since, wanted = self.flight or (now, state)
        self.flight = None
        if state != self.state:
            self.timeline.change(since, now, self.allowed(state))
        elif wanted != state:
            self.timeline.doubt(since, now, self.allowed(wanted))
        self.state = state

    def possible(self):
        return {self.state, self.flight[1]} if self.flight else {self.state}


def state_of(shown):
    """Of an element of the list; a denied one has no phase, which no harness here asks for."""
    assert not shown["denied"], shown
    return State(MODES.index(shown["modes"]), shown["phase"], shown["generation"])


class StampedCapture(Capture):
    """With the time at which the kernel has seen each packet arrive."""

    def __init__(self, lab):
        super().__init__(lab)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)

    def drain(self):
        packets = []
        for _ in range(self.came()):
            frame, more, _, where = self._socket.recvmsg(2048, 64)
            packet = parse(frame) if where[2] != socket.PACKET_OUTGOING else None
            if packet and packet.destination in TARGETS and packet.payload:
                seconds, ns = struct.unpack("qq", more[0][2])
                packets.append((packet, seconds * 10**9 + ns))
        return packets


def judge(subjects, packets):
    """The packets that were forbidden, in words."""
    found = []
    for packet, arrived in packets:
        with contextlib.suppress(ValueError):
            label, stamp = packet.payload.split()
            name, number = label.decode().rsplit(":", 1)
            subject = subjects[int(number)]
            assert subject.name == name
            subject.arrived += 1
            # TCP without payload and what is not ours has no stamp.
            if not subject.timeline.allows(packet.destination, int(stamp), arrived):
                found.append(f"{name} to {packet.destination} protocol {packet.protocol} sent"
                             f" {stamp} arrived {arrived}:"
                             f" {subject.timeline.entries[-8:]}")
    return found
