# SPDX-License-Identifier: Apache-2.0
"""Runs vectors in a container, phase by phase, and judges what has left it.

Each phase is a mode: setup is public, run no-network, verifier an allowlist with A alone."""

import collections
import itertools

import rows
from containers import ADMIN
from lab import A4, A6
from phasegate import NO_NETWORK, PUBLIC, allowlist
from wire import FIRST, Marks, numbers
from world import ALLOWED

LIST = "allowlist"
MODES = {PUBLIC: "setup", NO_NETWORK: "run", LIST: "verifier"}
POLICY = {"network_policy": PUBLIC, "run_network_policy": NO_NETWORK,
          "verifier_network_policy": allowlist(A4, A6)}
USER, ROOT = "user", "root"
DENIED, TO_ALLOWED = "D", "A"

FRAME = 160  # octets of the first frame that are kept, for who wants to see what has left

# privileges: of the container and of the process. seen: by which wires; errno: what it was told.
Result = collections.namedtuple(
    "Result", "runtime privileges vector family mode target seen errno note number ms frame")


class Suite:
    def __init__(self, world, only=(), full=True):
        self.world = world
        self.only = only
        self.full = full
        self.next = itertools.count(FIRST)
        self.attempts, self.seen, self.frames = {}, collections.defaultdict(set), {}

    def vectors(self, privilege, user):
        """(row, family) of all that this process can try; unless all of it is wanted, without what
        a process with less can try as well, but for raw and packet sockets with NET_ADMIN."""
        can = {"": True, "raw": user == ROOT, "admin": privilege == ADMIN and user == ROOT}
        for row in rows.ROWS.values():
            if self.only and row.name not in self.only or not can.get(row.needs):
                continue
            if user == ROOT and not row.needs and not self.full and not self.only:
                continue
            for family in row.families:
                yield row, family

    def line(self, row, family, user, target, addresses):
        marks = Marks(next(self.next))
        six = family == "6" or family == "m"
        one, other = ("6", "4") if family == "6" else ("4", "6")
        aim = {"4": marks.denied4, "6": marks.denied6, "m": "::ffff:" + marks.denied4}
        if target == TO_ALLOWED:
            aim = ALLOWED
        own = addresses["own" + one]
        onlink = marks.onlink(addresses["network4"], addresses["network6"])
        values = {
            "target": aim[family], "allowed": ALLOWED[family], "own": own,
            "gateway": addresses["gateway" + one], "other": aim[other],
            "group": marks.group6 if family == "6" else marks.group4,
            "onlink": onlink[one == "6"], "token": marks.token, "number": marks.number,
            "mac": addresses["mac"], "gwmac": addresses["gwmac"], "madmac": marks.mac}
        assert six or ":" not in values["target"]
        words = [row.name, user, *(f"{key}={value}" for key, value in values.items())]
        return marks.number, " ".join(words)

    def batch(self, container, privilege, user, mode, target):
        """All vectors of the process at one kind of target; the frames are read afterwards."""
        self.try_all(container, privilege, user, mode, target, self.vectors(privilege, user))

    def try_all(self, container, privilege, user, mode, target, vectors):
        lines = []
        for row, family in vectors:
            if target == TO_ALLOWED and row.to_allowed is None:
                continue
            number, line = self.line(row, family, user, target, container.addresses)
            lines.append((row, family, number, line))
        answers = container.attempt([line for *_, line in lines])
        for (row, family, number, _), answer in zip(lines, answers):
            self.attempts[number] = Result(
                container.name, f"{privilege} {user}", row.name, family, mode, target, None,
                answer["errno"], answer["note"], number, answer["ms"], None)

    def look(self, container):
        """Reads the wires, after all that was sent has come."""
        self.world.ping(container.addresses["own4"])
        self.world.ping(container.addresses["own6"])
        for name, wire in self.world.wires.items():
            for frame in wire.frames():
                for number in numbers(frame):
                    self.seen[number].add(name)
                    self.frames.setdefault(number, frame[:FRAME].hex())
            assert wire.lost == 0, f"the capture of {name} lost frames, so it proves nothing"
        for data in list(self.world.servers.taken):
            for number in numbers(data):
                self.seen[number].add("host")

    def results(self):
        for number, attempt in self.attempts.items():
            yield attempt._replace(seen=sorted(self.seen[number]), frame=self.frames.get(number))


Verdict = collections.namedtuple("Verdict", "word wanted text")


def judge(row, results):
    """What came of one vector of one family and process: {mode: Verdict}, in public first."""
    by = {(r.mode, r.target): r for r in results}
    public = by.get((PUBLIC, DENIED))
    verdicts = {}
    possible = bool(public and public.seen)
    for mode in (PUBLIC, NO_NETWORK, LIST):
        result = by.get((mode, DENIED))
        if not result:
            continue
        if mode == PUBLIC:
            word = "passes" if result.seen else "not possible here"
            wanted = ("passes", "not possible here") if row.rare else ("passes",)
        else:
            word = "leaked" if result.seen else "blocked" if possible else "not possible here"
            wanted = ("blocked",) if not row.rare else ("blocked", "not possible here")
            if mode in row.leak:
                wanted = ("leaked", *wanted)
        verdicts[mode] = Verdict(word, word in wanted, result.errno or result.note)
    result = by.get((LIST, TO_ALLOWED))
    if result:
        word = "passes" if result.seen else "denied" if possible else "not possible here"
        wanted = (row.to_allowed, *(("not possible here",) if row.rare else ()))
        verdicts["to A"] = Verdict(word, word in wanted, result.errno or result.note)
    return verdicts
