# SPDX-License-Identifier: Apache-2.0
"""The client for threads: `Client().environment(...)`."""

from __future__ import annotations

import contextlib
import http.client
import logging
import socket
import struct
import threading
import time
from typing import (Any, Dict, Iterator, Mapping, Optional, Sequence, Tuple, TypeVar,
                    Union)

from . import model, processes, wire
from .errors import (AgentUnavailableError, ApiError, ConnectionLostError,
                     EnvironmentNotFoundError, PhasegateError, ReplyTimeoutError,
                     UnsupportedError)
from .lease import Renewal, unique_name
from .standing import Standing

T = TypeVar("T")
logger = logging.getLogger("phasegate")


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path
        self._limit = timeout

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # A connect with a time-out of Python's would not wait where the backlog is full.
        limit = struct.pack("@ll", int(self._limit), int(self._limit % 1 * 1e6))
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        self.sock.connect(self._path)
        self.sock.settimeout(self._limit)


class Client:
    """Each call is a connection of its own, so threads may share a client."""

    def __init__(self, socket_path: Optional[str] = None, *, timeout: float = 60,
                 restart: float = 5, interval: float = 0.1) -> None:
        self.settings = wire.Settings(socket_path or wire.default_socket(), timeout, restart,
                                      interval)

    def call(self, request: wire.Request[T]) -> T:
        """Makes a request; waits for an agent that is being started again."""
        deadline = time.monotonic() + self.settings.restart
        while True:
            try:
                return self._attempt(request)
            except OSError as error:
                if not wire.is_passing(error) or time.monotonic() >= deadline:
                    raise self.settings.absent(error) from error
            except PhasegateError as error:
                if not wire.may_repeat(request, error) or time.monotonic() >= deadline:
                    raise
            time.sleep(self.settings.interval)

    def _attempt(self, request: wire.Request[T]) -> T:
        connection = UnixConnection(self.settings.socket, self.settings.timeout)
        with contextlib.closing(connection):
            connection.connect()
            about = f"{request.method} {request.target}"
            try:
                headers = {"Connection": "close"}
                if request.body is not None:
                    headers["Content-Type"] = "application/json"
                try:
                    connection.request(request.method, request.target, request.payload, headers)
                except (BrokenPipeError, ConnectionResetError):
                    # It may have refused before it read all of it, and its reply says why.
                    pass
                response = connection.getresponse()
                text = response.read()
            except socket.timeout as error:
                raise ReplyTimeoutError(f"{about}: no reply in {self.settings.timeout} s"
                                        ) from error
            except (OSError, http.client.HTTPException) as error:
                raise ConnectionLostError(f"{about}: {error!r}") from error
        return request.read(response.status, response.headers.get_content_type(), text)

    def capabilities(self) -> model.Capabilities:
        """What this host can enforce."""
        return self.call(wire.capabilities())

    def require(self, *needs: str) -> model.Capabilities:
        """Raises UnsupportedError unless this host has all of needs (Capabilities.missing)."""
        found = self.capabilities()
        missing = found.missing(*needs)
        if missing:
            raise UnsupportedError(f"this host lacks {', '.join(missing)}")
        return found

    def validate(self, policy: wire.Policy, *, form: Optional[model.Form] = None,
                 allow: Optional[wire.Allow] = None) -> model.Validation:
        """Whether a policy is one, and what is wrong with it; nothing is done by it."""
        return self.call(wire.validate(policy, form, allow))

    def create(self, name: str, policy: wire.Policy, *, form: Optional[model.Form] = None,
               allow: Optional[wire.Allow] = None,
               members: Optional[Sequence[wire.MemberInput]] = None,
               attach: Optional[bool] = None, phase: Optional[model.Phase] = None,
               verifier: Optional[model.Verifier] = None,
               member_traffic: Optional[model.MemberTraffic] = None,
               report_denials: Optional[bool] = None,
               dns: Optional[Mapping[str, Any]] = None,
               accept: Optional[Sequence[str]] = None) -> Environment:
        """Its phase is in force when this returns; the same again finds it. The options are those
        of POST /v1/environments."""
        return Environment(self, self.call(wire.create(
            name, policy, form=form, allow=allow, members=members, attach=attach, phase=phase,
            verifier=verifier, member_traffic=member_traffic, report_denials=report_denials,
            dns=dns, accept=accept)))

    def get(self, name: str) -> Environment:
        """One that there is."""
        return Environment(self, self.show(name))

    def show(self, name: str) -> model.EnvironmentDetail:
        """One with its policy, warnings and counters."""
        return self.call(wire.show(name))

    def environments(self) -> Tuple[model.Environment, ...]:
        """Those of this user; root's are all."""
        return self.call(wire.environments())

    def set_phase(self, name: str, phase: model.Phase, *,
                  expected_generation: Optional[int] = None,
                  survivors: Optional[model.Survivors] = None,
                  lease: Optional[int] = None,
                  then: Optional[model.LeaseEnd] = None) -> model.PhaseChange:
        """lease: seconds after which the phase falls back to then. expected_generation: unless this
        one is in force, GenerationMismatchError says which is."""
        return self.call(wire.set_phase(name, phase, expected_generation=expected_generation,
                                     survivors=survivors, lease=lease, then=then))

    def update_policy(self, name: str, policy: wire.Policy, *,
                      form: Optional[model.Form] = None, allow: Optional[wire.Allow] = None,
                      expected_generation: Optional[int] = None) -> model.PolicyChange:
        """Another policy in the same phase. If it fails the old one stays in force."""
        return self.call(wire.update_policy(
            name, policy, form=form, allow=allow, expected_generation=expected_generation))

    def explain(self, name: str, host: str,
                phase: Optional[model.Phase] = None) -> model.Explanation:
        """Whether a phase, the one in force unless given, allows a host, and by which entry."""
        return self.call(wire.explain(name, host, phase))

    def verify(self, name: str, *, allowed: Optional[str] = None,
               blocked: Optional[str] = None,
               without: Sequence[str] = ()) -> model.Verification:
        """Tries from inside one destination of each kind (HOST:PORT), and the ways around but for
        the vectors that it goes without."""
        return self.call(wire.verify(name, allowed=allowed, blocked=blocked, without=without))

    def events(self, cursor: Union[int, str, None] = None, *, environment: Optional[str] = None,
               follow: bool = False) -> model.EventPage:
        """Those that are kept, from the cursor of an earlier page on, or "now"; of an Environment
        from its creation on, with "oldest" of earlier ones of its name, too. follow: waits for one
        if there is none yet, up to 25 seconds."""
        return self.call(wire.events(cursor, environment, follow))

    def follow(self, cursor: Union[int, str] = "now", *,
               environment: Optional[str] = None) -> Iterator[model.Event]:
        """Events as they come, without end. Those that were dropped raise CursorExpiredError."""
        while True:
            page = self.events(cursor, environment=environment, follow=True)
            yield from page.events
            cursor = page.cursor

    def destroy(self, name: str, processes: model.Processes = "refuse") -> None:
        """processes: what becomes of those inside; released ones go on without confinement."""
        self.call(wire.destroy(name, processes))

    @contextlib.contextmanager
    def environment(self, policy: wire.Policy, name: Optional[str] = None, *,
                    processes: model.Processes = "kill",
                    form: Optional[model.Form] = None, allow: Optional[wire.Allow] = None,
                    members: Optional[Sequence[wire.MemberInput]] = None,
                    attach: Optional[bool] = None, phase: Optional[model.Phase] = None,
                    verifier: Optional[model.Verifier] = None,
                    member_traffic: Optional[model.MemberTraffic] = None,
                    report_denials: Optional[bool] = None,
                    dns: Optional[Mapping[str, Any]] = None,
                    accept: Optional[Sequence[str]] = None) -> Iterator[Environment]:
        """An Environment that is destroyed at the end, with what runs in it. By the same name and
        policy a harness that is started again finds the one that it had, and puts its first phase
        in force again."""
        request = wire.create(
            name or unique_name(), policy, form=form, allow=allow, members=members, attach=attach,
            phase=phase, verifier=verifier, member_traffic=member_traffic,
            report_denials=report_denials, dns=dns, accept=accept)
        try:
            made = Environment(self, self.call(request))
        except (ApiError, AgentUnavailableError):
            raise
        except BaseException as error:
            # It may have been made, and nobody else knows of this one.
            with contextlib.suppress(PhasegateError):
                if name is None:
                    self._remove(request.name, processes)
                elif not isinstance(error, PhasegateError):
                    # Whose it is, a reply tells.
                    self._remove(self.call(request).name, processes)
            raise
        try:
            made._begin(phase or "setup")
            yield made
        finally:
            self._remove(made.name, processes)

    def _remove(self, name: str, how: model.Processes) -> None:
        with contextlib.suppress(EnvironmentNotFoundError):
            self.call(wire.destroy(name, how).again())


class Environment(Standing):
    """Of a client. info is what was known of it last."""

    def __init__(self, client: Client, info: model.EnvironmentDetail) -> None:
        super().__init__(info)
        self.client = client
        self._lock = threading.Lock()

    def refresh(self) -> model.EnvironmentDetail:
        """Asks for what is in force now."""
        with self._lock:
            self.info = self.client.show(self.name)
            self._note(self.info)
            return self.info

    def _begin(self, phase: model.Phase) -> None:
        if not self._is_in(phase):
            self.set_phase(phase)

    def set_phase(self, phase: model.Phase, *, expected_generation: Optional[int] = None,
                  survivors: Optional[model.Survivors] = None,
                  lease: Optional[int] = None,
                  then: Optional[model.LeaseEnd] = None) -> model.PhaseChange:
        """As that of the client. For good, unless with a lease: phase() is for a time."""
        return self._set_phase(wire.set_phase(
            self.name, phase, expected_generation=expected_generation, survivors=survivors,
            lease=lease, then=then))

    def _set_phase(self, request: wire.Request[model.PhaseChange]) -> model.PhaseChange:
        with self._lock:
            change = self.client.call(request)
            self._note_switch(change)
            return change

    def update_policy(self, policy: wire.Policy, *, form: Optional[model.Form] = None,
                      allow: Optional[wire.Allow] = None,
                      expected_generation: Optional[int] = None) -> model.PolicyChange:
        """As that of the client."""
        with self._lock:
            change = self.client.update_policy(
                self.name, policy, form=form, allow=allow,
                expected_generation=expected_generation)
            self._note_update(change)
            return change

    def explain(self, host: str, phase: Optional[model.Phase] = None) -> model.Explanation:
        return self.client.explain(self.name, host, phase)

    def verify(self, *, allowed: Optional[str] = None, blocked: Optional[str] = None,
               without: Sequence[str] = ()) -> model.Verification:
        return self.client.verify(self.name, allowed=allowed, blocked=blocked,
                                  without=without)

    def events(self, cursor: Union[int, str, None] = None, *,
               follow: bool = False) -> model.EventPage:
        return self.client.events(cursor, environment=self.name, follow=follow)

    def destroy(self, processes: model.Processes = "refuse") -> None:
        self.client.destroy(self.name, processes)

    @contextlib.contextmanager
    def phase(self, phase: model.Phase, *, baseline: model.Phase = "setup",
              survivors: model.Survivors = "kill", lease: Optional[int] = None,
              then: Optional[model.LeaseEnd] = None, renew: bool = True) -> Iterator[PhaseGuard]:
        """A phase for the time of the body. However that ends, the baseline is in force after it,
        and processes of the run that could wait for it are dealt with as survivors says.

        lease: seconds after which the phase falls back to then if this process is gone. With renew
        it is renewed until the body ends, and only while nobody else has switched: what has fallen
        back is never opened again. LeaseLostError says at the end that it did not hold.
        """
        options: Dict[str, Any] = {"survivors": survivors, "lease": lease, "then": then}
        request = wire.set_phase(self.name, phase, **options)
        guard = PhaseGuard(self, Renewal(phase, options, lease))
        try:
            guard.change = self._set_phase(request)
        except (ApiError, AgentUnavailableError):
            raise
        except BaseException:
            # It may have taken effect.
            self._restore(baseline, survivors, True)
            raise
        interrupted = True
        try:
            with guard.renewing(lease is not None and renew):
                yield guard
            interrupted = False
        except Exception:
            interrupted = False
            raise
        finally:
            self._restore(baseline, survivors, interrupted)
        guard.check()

    def _restore(self, baseline: model.Phase, survivors: model.Survivors, quiet: bool) -> None:
        """quiet: what is under way already says more than a failure of this."""
        try:
            self._set_phase(wire.set_phase(self.name, baseline, survivors=survivors).again())
        except EnvironmentNotFoundError:
            logger.warning("%s: there is no baseline to restore: it is destroyed", self.name)
        except PhasegateError as error:
            if not quiet:
                raise
            logger.error("%s: %s cannot be restored: %s", self.name, baseline, error)


class PhaseGuard:
    """What phase() hands out. change is the reply of the switch."""

    change: model.PhaseChange

    def __init__(self, environment: Environment, renewal: Renewal) -> None:
        self.environment = environment
        self._renewal = renewal
        self._ended = threading.Event()

    @property
    def lost(self) -> Optional[PhasegateError]:
        """Why the phase is no longer held."""
        return self._renewal.lost

    def check(self) -> None:
        """Raises LeaseLostError if it is no longer held."""
        self._renewal.check(self.environment.name)

    def renew(self) -> None:
        """Now, for another lease. Does nothing without one."""
        environment = self.environment
        with environment._lock:
            request = self._renewal.request(environment.name, environment.phase_in_force,
                                            environment._own_generation)
            if request is None:
                return
            try:
                self._renewal.done(environment.client.call(request))
            except PhasegateError as error:
                self._renewal.failed(error)

    @contextlib.contextmanager
    def renewing(self, wanted: bool) -> Iterator[None]:
        if not wanted:
            yield
            return

        def keep() -> None:
            while not self._ended.wait(self._renewal.pause):
                self.renew()

        thread = threading.Thread(target=keep, name="phasegate-lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()


__all__ = ["Client", "Environment", "PhaseGuard"]
