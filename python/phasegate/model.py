# SPDX-License-Identifier: Apache-2.0
"""What the agent replies, as dataclasses with the field names of docs/openapi.yaml. Fields that a
newer agent adds are left out; one that is missing is an error."""

from __future__ import annotations

import dataclasses
import typing
from typing import Any, Dict, Literal, Mapping, Optional, Tuple, Type, TypeVar, Union

# "public", "no-network", or {"network_mode": ..., "allowed_hosts": [...]}.
NetworkPolicy = Union[str, Mapping[str, Any]]
# A document with up to three of them, by the names of the fields. Not Mapping[str, NetworkPolicy]:
# type checkers take a dict of different ones for a dict of what they have in common.
Document = Mapping[str, Any]

Phase = Literal["setup", "run", "verifier"]
# What a lease may fall back to.
LeaseEnd = Literal["setup", "run", "verifier", "deny"]
# What is done about processes of the run that could wait for a wider phase.
Survivors = Literal["kill", "freeze", "refuse", "allow"]
# What becomes of processes in an Environment that is destroyed.
Processes = Literal["refuse", "kill", "release"]
# Where verification runs.
Verifier = Literal["host", "same", "new"]
MemberTraffic = Literal["allow", "deny"]
# Whether the three fields of a policy stand alone, or among others.
Form = Literal["bare", "env-params"]
PHASES: Tuple[Phase, ...] = typing.get_args(Phase)
SURVIVOR_CHOICES: Tuple[Survivors, ...] = typing.get_args(Survivors)

T = TypeVar("T")


class Malformed(ValueError):
    """A value that is not of the type."""


def allowlist(*hosts: str) -> Dict[str, Any]:
    """The policy of a phase that allows these hosts: names, "*." and a name, addresses, ranges."""
    return {"network_mode": "allowlist", "allowed_hosts": list(hosts)}


@dataclasses.dataclass(frozen=True)
class Diagnostic:
    code: str
    message: str
    object: Optional[str]
    value: Optional[str] = None
    hint: Optional[str] = None


@dataclasses.dataclass(frozen=True)
class PolicyDiagnostic:
    code: str
    pointer: str
    value: Optional[str]
    hint: Optional[str]
    message: str
    document: Optional[str]


@dataclasses.dataclass(frozen=True)
class Entry:
    kind: str
    value: str


@dataclasses.dataclass(frozen=True)
class ResolvedPhase:
    network_mode: str
    entries: Tuple[Entry, ...]
    origin: str
    added: int
    document: Optional[str] = None


@dataclasses.dataclass(frozen=True)
class ResolvedPolicy:
    setup: Optional[ResolvedPhase]
    run: Optional[ResolvedPhase]
    verifier: Optional[ResolvedPhase]


@dataclasses.dataclass(frozen=True)
class Validation:
    ok: bool
    warnings: Tuple[PolicyDiagnostic, ...]
    phases: Optional[ResolvedPolicy] = None
    errors: Tuple[PolicyDiagnostic, ...] = ()


@dataclasses.dataclass(frozen=True)
class Survivor:
    pid: int
    command: str
    cgroup: Optional[str]


@dataclasses.dataclass(frozen=True)
class Lease:
    expires_in_ms: int
    then: str


@dataclasses.dataclass(frozen=True)
class PhaseChange:
    name: str
    phase: Phase
    generation: int
    changed: bool
    took_us: float
    closed: int
    close_us: float
    widened: bool
    survivors_choice: Optional[str]
    survivors: Tuple[Survivor, ...]
    lease: Optional[Lease]
    warnings: Tuple[Diagnostic, ...]


@dataclasses.dataclass(frozen=True)
class PolicyChange:
    name: str
    phase: Phase
    generation: int
    changed: bool
    took_us: float
    closed: int
    close_us: float
    warnings: Tuple[Diagnostic, ...]


@dataclasses.dataclass(frozen=True)
class Destroyed:
    name: str
    destroyed: bool


@dataclasses.dataclass(frozen=True)
class Modes:
    setup: str
    run: str
    verifier: str


@dataclasses.dataclass(frozen=True)
class Block:
    network: Optional[str]
    message: str


@dataclasses.dataclass(frozen=True)
class Proxy:
    variable: str
    value: str


@dataclasses.dataclass(frozen=True)
class ContainerNetwork:
    mode: Optional[str]
    owner: Optional[str]
    networks: Tuple[str, ...]
    blocks: Tuple[Block, ...]
    proxies: Tuple[Proxy, ...]


@dataclasses.dataclass(frozen=True)
class Member:
    cgroup: str
    id: int
    kind: str
    pid: Optional[int] = None
    container: Optional[str] = None
    container_id: Optional[str] = None
    runtime: Optional[str] = None
    network: Optional[ContainerNetwork] = None
    gone: bool = False


@dataclasses.dataclass(frozen=True)
class Environment:
    name: str
    id: int
    owner: int
    phase: Phase
    denied: bool
    generation: int
    modes: Modes
    members: Tuple[Member, ...]
    cgroup_parent: Optional[str]
    verifier: str
    member_traffic: str
    populated: Optional[bool]
    frozen: bool
    lease: Optional[Lease]


@dataclasses.dataclass(frozen=True)
class EnvironmentList:
    environments: Tuple[Environment, ...]


@dataclasses.dataclass(frozen=True)
class Verdicts:
    allowed: int
    denied: int


@dataclasses.dataclass(frozen=True)
class Counters:
    connects: Verdicts
    sendmsgs: Verdicts
    packets: Verdicts
    ingress: Verdicts
    links: Verdicts
    reasons: Mapping[str, int]


@dataclasses.dataclass(frozen=True)
class Exposure:
    """What a member has that no policy can hold. ended: a program that was executed with it, and
    that the kernel has ended for that."""

    id: str
    member: int
    message: str
    ended: bool = False


@dataclasses.dataclass(frozen=True)
class Link:
    """A way out of a member's network namespace. guard: on, shared or none, for a reason."""

    network_namespace: int
    interface: Optional[str]
    device: Optional[str]
    guard: str
    reason: Optional[str] = None


@dataclasses.dataclass(frozen=True)
class Connection:
    protocol: str
    local: str
    remote: str
    closed: bool


@dataclasses.dataclass(frozen=True)
class Connections:
    """What the members had open when they were attached; .listed has some of it."""

    closed: int
    kept: int
    listed: Tuple[Connection, ...]


@dataclasses.dataclass(frozen=True)
class EnvironmentDetail(Environment):
    warnings: Tuple[Diagnostic, ...]
    exposures: Tuple[Exposure, ...]
    links: Tuple[Link, ...]
    connections: Optional[Connections]
    policy: ResolvedPolicy
    counters: Optional[Counters]
    dns: Mapping[str, int]


@dataclasses.dataclass(frozen=True)
class PhaseVerdict:
    allowed: bool
    network_mode: str
    entry: Optional[str]
    reason: str


@dataclasses.dataclass(frozen=True)
class Explanation:
    name: str
    host: str
    phase: Phase
    denied: bool
    allowed: bool
    network_mode: str
    entry: Optional[str]
    reason: str
    phases: Mapping[str, PhaseVerdict]


@dataclasses.dataclass(frozen=True)
class VerifyProbe:
    target: Optional[str]
    address: Optional[str]
    result: str
    wrong: bool
    reason: str


@dataclasses.dataclass(frozen=True)
class VerifyLookup:
    address: str
    result: str
    wrong: bool
    reason: str


@dataclasses.dataclass(frozen=True)
class VerifyPhase:
    """null where the policy has nothing that could be looked up."""

    allowed: Optional[VerifyLookup]
    blocked: Optional[VerifyLookup]


@dataclasses.dataclass(frozen=True)
class VerifyVector:
    name: str
    what: str
    expected: str
    result: str
    wrong: bool
    reason: str


@dataclasses.dataclass(frozen=True)
class Verification:
    name: str
    phase: Phase
    generation: int
    result: str
    allowed: Optional[VerifyProbe]
    blocked: VerifyProbe
    phases: Mapping[str, VerifyPhase]
    vectors: Tuple[VerifyVector, ...]

    @property
    def enforced(self) -> bool:
        """Seen to be; what is inconclusive is not."""
        return self.result == "enforced"


@dataclasses.dataclass(frozen=True)
class Event:
    """more has the fields that depend on the kind."""

    event: str
    cursor: int
    time: str
    environment: Optional[str]
    more: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class EventPage:
    """cursor is that of the next request."""

    events: Tuple[Event, ...]
    cursor: int


@dataclasses.dataclass(frozen=True)
class Operator:
    never_allow: Tuple[str, ...]
    host_ports: Optional[Tuple[int, ...]]
    exposures: Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Capabilities:
    version: str
    abi: int
    kernel: str
    modes: Tuple[str, ...]
    phases: Tuple[str, ...]
    hostnames: bool
    wildcards: bool
    addresses: Mapping[str, bool]
    phase_switching: bool
    policy_update: bool
    connection_closing: bool
    leases: bool
    events: bool
    survivors: Tuple[str, ...]
    verifier: Tuple[str, ...]
    members: Tuple[str, ...]
    runtimes: Tuple[str, ...]
    guards: Mapping[str, bool]
    operator: Operator
    limits: Mapping[str, int]

    def missing(self, *needs: str) -> Tuple[str, ...]:
        """Those of needs that this host lacks: names of fields ("hostnames"), or a field and one
        of its values ("modes:allowlist", "addresses:ipv6", "runtimes:docker")."""
        return tuple(need for need in needs if not self._has(need))

    def _has(self, need: str) -> bool:
        name, _, item = need.partition(":")
        value = getattr(self, name, None)
        if not item:
            return bool(value)
        return bool(value.get(item)) if isinstance(value, Mapping) else item in (value or ())


_PLAIN: Dict[Any, Tuple[type, ...]] = {str: (str,), int: (int,), bool: (bool,),
                                       float: (int, float)}
_hints: Dict[type, Dict[str, Any]] = {}


def _hints_of(cls: Type[Any]) -> Dict[str, Any]:
    if cls not in _hints:
        _hints[cls] = typing.get_type_hints(cls)
    return _hints[cls]


def _decode_object(cls: Type[Any], value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise Malformed(f"{where or 'it'} is no object")
    hints, given = _hints_of(cls), {}
    for field in dataclasses.fields(cls):
        if field.name in value:
            given[field.name] = decode(hints[field.name], value[field.name],
                                       f"{where}/{field.name}")
        elif field.default is dataclasses.MISSING:
            raise Malformed(f"{where}/{field.name} is missing")
    return cls(**given)


def decode(kind: Any, value: Any, where: str = "") -> Any:
    """JSON to a type of this module."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return value
    if dataclasses.is_dataclass(kind):
        return _decode_object(typing.cast(Type[Any], kind), value, where)
    if origin is Literal:
        if value not in arguments:
            raise Malformed(f"{where} is none of {', '.join(arguments)}")
        return value
    if origin is Union:
        return None if value is None else decode(arguments[0], value, where)
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise Malformed(f"{where} is no array")
        return tuple(decode(arguments[0], item, f"{where}/{i}") for i, item in enumerate(value))
    if origin is not None:
        if not isinstance(value, dict):
            raise Malformed(f"{where} is no object")
        return {key: decode(arguments[1], item, f"{where}/{key}") for key, item in value.items()}
    if not isinstance(value, _PLAIN[kind]) or (isinstance(value, bool) and kind is not bool):
        raise Malformed(f"{where} is no {kind.__name__}")
    return value


def decode_events(lines: Any) -> EventPage:
    """The lines of a reply, parsed; the last is the cursor."""
    if not lines or not all(isinstance(line, dict) for line in lines):
        raise Malformed("there is no cursor")
    *events, last = lines
    if last.get("event") != "cursor":
        raise Malformed("the last line is no cursor")
    known = ("event", "cursor", "time", "environment")
    return EventPage(tuple(
        decode(Event, {"time": "", "environment": None, **line,
                       "more": {k: v for k, v in line.items() if k not in known}})
        for line in events), decode(int, last.get("cursor"), "/cursor"))
