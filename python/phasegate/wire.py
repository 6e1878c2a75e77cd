# SPDX-License-Identifier: Apache-2.0
"""The calls of the API as requests, and their replies: what both clients share."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
from typing import (Any, Callable, Dict, Generic, Mapping, Optional, Sequence, Tuple, TypeVar,
                    Union)
from urllib.parse import quote, urlencode

from . import model
from .errors import (AgentUnavailableError, ApiError, BusyError, ConnectionLostError, ProtocolError,
                     ReplyTimeoutError, StoppingError, TooManyClientsError)

SOCKET = "/run/phasegate/agent.sock"
# The socket of an agent that is being started again: not there, or nobody listens.
ABSENT = (errno.ENOENT, errno.ECONNREFUSED, errno.EAGAIN)

T = TypeVar("T")
Policy = Union[model.Document, Sequence[model.Document]]
Allow = Mapping[str, Sequence[str]]
# One of {"cgroup": ...}, {"pid": ...}, {"container": ..., "runtime": ...}.
MemberInput = Mapping[str, Any]


def default_socket() -> str:
    return os.environ.get("PHASEGATE_SOCKET") or SOCKET


@dataclasses.dataclass(frozen=True)
class Settings:
    """Of a client. timeout: seconds for each step of a request. restart: seconds for which an
    agent that does not serve may be one that is being started again; 0 gives up at once.
    interval: seconds between two attempts."""

    socket: str = dataclasses.field(default_factory=default_socket)
    timeout: float = 60
    restart: float = 5
    interval: float = 0.1

    def absent(self, error: BaseException) -> AgentUnavailableError:
        return AgentUnavailableError(f"no agent serves {self.socket}: {error}")


@dataclasses.dataclass(frozen=True)
class Request(Generic[T]):
    """repeat: it may be made once more when it is not known whether it has arrived."""

    method: str
    target: str
    decode: Callable[[Any, int], T]
    body: Optional[Dict[str, Any]] = None
    repeat: bool = False

    @property
    def name(self) -> str:
        """Of the Environment that the body is about."""
        return str((self.body or {})["name"])

    @property
    def payload(self) -> Optional[bytes]:
        return None if self.body is None else json.dumps(self.body).encode()

    def again(self) -> Request[T]:
        return dataclasses.replace(self, repeat=True)

    def read(self, status: int, kind: Optional[str], text: bytes) -> T:
        """The result; raises what the agent refuses with."""
        try:
            if kind == "application/x-ndjson":
                body: Any = [json.loads(line) for line in text.splitlines()]
            else:
                body = json.loads(text)
            if status >= 400 and not (isinstance(body, dict) and "code" in body):
                raise model.Malformed("an error without a code")
            if status < 400:
                return self.decode(body, status)
        except ValueError as error:
            raise ProtocolError(f"{self.method} {self.target}: status {status}: {error}") from error
        raise ApiError.of(body, status)


def is_passing(error: BaseException) -> bool:
    """Nothing was done, and in a moment it may be: another agent is about to serve, or this one has
    more clients than it can serve at once, or waits for another process itself."""
    return isinstance(error, (StoppingError, TooManyClientsError, BusyError)) or (
        isinstance(error, OSError) and error.errno in ABSENT)


def may_repeat(request: Request[Any], error: BaseException) -> bool:
    return is_passing(error) or (request.repeat and isinstance(error, ConnectionLostError)
                                 and not isinstance(error, ReplyTimeoutError))


def _as(kind: Any) -> Callable[[Any, int], Any]:
    return lambda body, status: model.decode(kind, body)


def _given(**fields: Any) -> Dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _path(name: str, rest: str = "") -> str:
    return f"/v1/environments/{quote(name, safe='')}{rest}"


def _query(**fields: Any) -> str:
    given = _given(**fields)
    return f"?{urlencode(given)}" if given else ""


def _policy(policy: Policy, form: Optional[model.Form], allow: Optional[Allow]) -> Dict[str, Any]:
    added = None if allow is None else {phase: list(hosts) for phase, hosts in allow.items()}
    return _given(policy=policy, form=form, allow=added)


def capabilities() -> Request[model.Capabilities]:
    return Request("GET", "/v1/capabilities", _as(model.Capabilities), repeat=True)


def validate(policy: Policy, form: Optional[model.Form] = None,
             allow: Optional[Allow] = None) -> Request[model.Validation]:
    return Request("POST", "/v1/validate", _as(model.Validation), _policy(policy, form, allow),
                   repeat=True)


def create(name: str, policy: Policy, *, form: Optional[model.Form] = None,
           allow: Optional[Allow] = None, members: Optional[Sequence[MemberInput]] = None,
           attach: Optional[bool] = None, phase: Optional[model.Phase] = None,
           verifier: Optional[model.Verifier] = None,
           member_traffic: Optional[model.MemberTraffic] = None,
           report_denials: Optional[bool] = None,
           dns: Optional[Mapping[str, Any]] = None,
           accept: Optional[Sequence[str]] = None) -> Request[model.EnvironmentDetail]:
    """The same again is answered with the Environment that there is, so it may be repeated."""
    body = _given(
        name=name, attach=attach, phase=phase, verifier=verifier, member_traffic=member_traffic,
        report_denials=report_denials, dns=dns, **_policy(policy, form, allow),
        accept=None if accept is None else list(accept),
        members=None if members is None else [dict(member) for member in members])
    return Request("POST", "/v1/environments", _as(model.EnvironmentDetail), body, repeat=True)


def environments() -> Request[Tuple[model.Environment, ...]]:
    def decode(body: Any, _: int) -> Tuple[model.Environment, ...]:
        found: Tuple[model.Environment, ...] = model.decode(model.EnvironmentList,
                                                            body).environments
        return found

    return Request("GET", "/v1/environments", decode, repeat=True)


def show(name: str) -> Request[model.EnvironmentDetail]:
    return Request("GET", _path(name), _as(model.EnvironmentDetail), repeat=True)


def set_phase(name: str, phase: model.Phase, *, expected_generation: Optional[int] = None,
              survivors: Optional[model.Survivors] = None, lease: Optional[int] = None,
              then: Optional[model.LeaseEnd] = None) -> Request[model.PhaseChange]:
    if then is not None and lease is None:
        raise ValueError("then is what a lease falls back to, and there is no lease")
    body = _given(phase=phase, expected_generation=expected_generation, survivors=survivors,
                  lease=None if lease is None else _given(seconds=lease, then=then))
    return Request("PUT", _path(name, "/phase"), _as(model.PhaseChange), body)


def update_policy(name: str, policy: Policy, *, form: Optional[model.Form] = None,
                  allow: Optional[Allow] = None,
                  expected_generation: Optional[int] = None) -> Request[model.PolicyChange]:
    body = _given(expected_generation=expected_generation, **_policy(policy, form, allow))
    return Request("PUT", _path(name, "/policy"), _as(model.PolicyChange), body)


def explain(name: str, host: str,
            phase: Optional[model.Phase] = None) -> Request[model.Explanation]:
    return Request("GET", _path(name, "/explain" + _query(host=host, phase=phase)),
                   _as(model.Explanation), repeat=True)


def verify(name: str, *, allowed: Optional[str] = None, blocked: Optional[str] = None,
           without: Sequence[str] = ()) -> Request[model.Verification]:
    return Request("POST", _path(name, "/verify"), _as(model.Verification),
                   _given(allowed=allowed, blocked=blocked, without=list(without) or None),
                   repeat=True)


def events(cursor: Union[int, str, None] = None, environment: Optional[str] = None,
           follow: bool = False) -> Request[model.EventPage]:
    query = _query(cursor=cursor, environment=environment, follow=1 if follow else None)
    return Request("GET", "/v1/events" + query, lambda body, _: model.decode_events(body),
                   repeat=True)


def destroy(name: str, processes: Optional[model.Processes] = None) -> Request[model.Destroyed]:
    return Request("DELETE", _path(name, _query(processes=processes)), _as(model.Destroyed))
