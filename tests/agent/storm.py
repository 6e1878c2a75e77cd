# SPDX-License-Identifier: Apache-2.0
"""What a harness knows of its Environments while their agent is killed at random, and the judge of
every packet that is sent: forbidden is one that arrives although no state allowed it which was, or
may have been, in force between the beginning of its sending and its arrival; wronged is one that
every such state allowed, but whose sending was denied, or which did not arrive. In doubt between
two states is only the time of a call in flight."""

import bisect
import collections
import contextlib
import errno
import os
import socket
import struct
import tempfile
import time

from lab import A4, B4, D4
from phasegate import NO_NETWORK, PHASES, PUBLIC, allowlist
from recorder import Capture, parse

SENDER = os.environ.get("PHASEGATE_SENDER", "sender")
TARGETS = (A4, B4, D4)
# What packet sockets send passes no hook of a cgroup: the guard of a link drops it all, unless
# everything is allowed.
FRAMES = "frames"
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
    {"setup": {*TARGETS, FRAMES}, "run": {A4, B4}, "verifier": {A4}},
)
MODES = tuple({phase: mode if isinstance(mode, str) else mode["network_mode"]
               for phase, mode in zip(PHASES, version.values())} for version in POLICIES)
UNCONFINED = {*TARGETS, FRAMES}
SO_TIMESTAMPNS = 35
# As struct record of sender.c.
ATTEMPT = struct.Struct("@QQIi")
# A packet that has not arrived after this time is lost.
ARRIVAL_NS = 5 * 10**9
FOREVER = 1 << 63

# What the agent says of an Environment; None: there is none.
State = collections.namedtuple("State", "version phase generation")


def allowed_by(state):
    return ALLOWED[state.version][state.phase]


class Timeline:
    """Which targets are allowed, from when, until when; entries of a call in flight overlap."""

    def __init__(self, allowed):
        self.begins, self.entries = [0], [[0, FOREVER, allowed]]

    def change(self, since, until, allowed, closed=False):
        """It was changed by a call between the two times; closed: by way of denying everything."""
        self.entries[-1][1] = until
        for entry in ([since, until, set()],) * closed + ([since, FOREVER, allowed],):
            self.begins.append(since)
            self.entries.append(entry)

    def doubt(self, since, until, allowed, closed=False):
        """A call had not changed it when it was seen next, but may have been about to."""
        before = self.entries[-1][2]
        self.change(since, until, allowed, closed)
        self.change(since, until, before)

    def requires(self, address, since, until):
        """Whether it was allowed all the time."""
        at = bisect.bisect_right(self.begins, until) - 1
        while at >= 0 and self.entries[at][1] >= since:
            if address not in self.entries[at][2]:
                return False
            at -= 1
        return True

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

    box = None  # a namespace of its own, with a link that is guarded

    def __init__(self, name, number, members=()):
        self.name, self.number, self.members = name, number, members
        self.state = None
        self.directory = None
        self.sender = None
        # A given cgroup is open to everything when it is not an Environment's.
        self.free = UNCONFINED if members else set()
        self.timeline = Timeline(self.free)
        self.flight = None  # (since, what the state will be): of a call without a reply
        self.history = []   # of calls, the newest last: for messages
        self.arrived = self.denied = self.frames = 0
        self.log = tempfile.TemporaryFile(prefix="pgt-storm-")
        self.seen = set()     # when what has arrived was sent
        self.pending = {}     # what was sent, by when: (target, when its sending had ended)

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
        self.history = self.history[-20:] + [(since, now, self.state, wanted, state)]
        # One that is made or ended is closed meanwhile.
        closed = None in (state, wanted, self.state)
        if state != self.state:
            self.timeline.change(since, now, self.allowed(state), closed)
        elif wanted != state:
            self.timeline.doubt(since, now, self.allowed(wanted), closed)
        self.state = state

    def close(self):
        self.log.close()
        if self.box:
            self.box.close()

    def attempts(self):
        """Of the sender, since they were read last: (began, ended, target, errno)."""
        return ATTEMPT.iter_unpack(self.log.read())

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
            *frame, name, number = label.decode().split(":")
            subject = subjects[int(number)]
            assert subject.name == name
            if frame:
                subject.frames += 1
            else:
                subject.arrived += 1
                subject.seen.add(int(stamp))
            # TCP without payload and what is not ours has no stamp.
            if not subject.timeline.allows(FRAMES if frame else packet.destination, int(stamp),
                                           arrived):
                found.append(f"{label} to {packet.destination} protocol {packet.protocol} sent"
                             f" {stamp} arrived {arrived}:"
                             f" {subject.timeline.entries[-8:]}")
    return found


def _take(subject, attempt):
    """Whether it was wronged."""
    began, ended, number, error = attempt
    if error == errno.EPERM:
        subject.denied += 1
        return subject.timeline.requires(TARGETS[number], began, ended)
    if error == 0:
        subject.pending[began] = TARGETS[number], ended
    return False


def wronged(subjects, now):
    """What was denied, or has not arrived, although it was allowed all the time, in words: of what
    was sent before now."""
    found = []
    for subject in subjects:
        attempts = list(subject.attempts())
        lost = [one for one in attempts if _take(subject, one)]
        if lost:
            found.append(f"{subject.name} denied {len(lost)} of {len(attempts)}, {lost[:9]} to"
                         f" {lost[-1]}: {subject.timeline.entries[-12:]} {subject.history[-12:]}")
        for began, (target, ended) in list(subject.pending.items()):
            late = ended < now - ARRIVAL_NS
            if began in subject.seen or late:
                del subject.pending[began]
            if (began not in subject.seen and late
                    and subject.timeline.requires(target, began, ended)):
                found.append(f"{subject.name} to {target} sent {began} has not arrived:"
                             f" {subject.timeline.entries[-8:]}")
        subject.seen = {sent for sent in subject.seen if sent > now - 2 * ARRIVAL_NS}
    return found
