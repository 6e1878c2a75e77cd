# SPDX-License-Identifier: Apache-2.0
"""The client for threads: `Client().environment(...)`."""

from __future__ import annotations

import contextlib
import http.client
import logging
import socket
import threading
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple, TypeVar, Union

from . import model, processes, wire
from .errors import (AgentUnavailableError, ApiError, ConnectionLostError,
                     EnvironmentNotFoundError, PhasegateError, ReplyTimeoutError,
                     UnsupportedError)
from .lease import Renewal, unique_name

T = TypeVar("T")
logger = logging.getLogger("phasegate")


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


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
        return self.call(wire.capabilities())

    def require(self, *needs: str) -> model.Capabilities:
        """Raises UnsupportedError unless this host has all of needs (Capabilities.missing)."""
        found = self.capabilities()
        missing = found.missing(*needs)
        if missing:
            raise UnsupportedError(f"this host lacks {', '.join(missing)}")
        return found

    def validate(self, policy: wire.Policy, *, form: Optional[str] = None,
                 allow: Optional[wire.Allow] = None) -> model.Validation:
        return self.call(wire.validate(policy, form, allow))

    def create(self, name: str, policy: wire.Policy, **options: Any) -> Environment:
        """options: those of POST /v1/environments."""
        return Environment(self, self.call(wire.create(name, policy, **options)))

    def get(self, name: str) -> Environment:
        """One that there is."""
        return Environment(self, self.show(name))

    def show(self, name: str) -> model.EnvironmentDetail:
        return self.call(wire.show(name))

    def environments(self) -> Tuple[model.Environment, ...]:
        return self.call(wire.environments())

    def set_phase(self, name: str, phase: str, **options: Any) -> model.PhaseChange:
        """options: expected_generation, survivors, lease (seconds), then."""
        return self.call(wire.set_phase(name, phase, **options))

    def update_policy(self, name: str, policy: wire.Policy, **options: Any) -> model.PolicyChange:
        """options: form, allow, expected_generation."""
        return self.call(wire.update_policy(name, policy, **options))

    def explain(self, name: str, host: str, phase: Optional[str] = None) -> model.Explanation:
        return self.call(wire.explain(name, host, phase))

    def verify(self, name: str, *, allowed: Optional[str] = None,
               blocked: Optional[str] = None) -> model.Verification:
        """Tries one destination of each kind from inside (HOST:PORT)."""
        return self.call(wire.verify(name, allowed=allowed, blocked=blocked))

    def events(self, cursor: Union[int, str, None] = None, *, environment: Optional[str] = None,
               follow: bool = False) -> model.EventPage:
        return self.call(wire.events(cursor, environment, follow))

    def follow(self, cursor: Union[int, str] = "now", *,
               environment: Optional[str] = None) -> Iterator[model.Event]:
        """Events as they come, without end. Those that were dropped raise CursorExpiredError."""
        while True:
            page = self.events(cursor, environment=environment, follow=True)
            yield from page.events
            cursor = page.cursor

    def destroy(self, name: str, processes: str = "refuse") -> None:
        """processes: refuse, kill or release."""
        self.call(wire.destroy(name, processes))

    @contextlib.contextmanager
    def environment(self, policy: wire.Policy, name: Optional[str] = None, *,
                    processes: str = "kill", **options: Any) -> Iterator[Environment]:
        """An Environment that is destroyed at the end, with what runs in it. By the same name and
        policy a harness that is started again finds the one that it had."""
        own_name = unique_name()
        try:
            made = self.create(name or own_name, policy, **options)
        except (ApiError, AgentUnavailableError):
            raise
        except BaseException:
            # It may have been made, and nobody else knows of this one.
            with contextlib.suppress(PhasegateError):
                if name is None:
                    self.call(wire.destroy(own_name, processes))
            raise
        try:
            yield made
        finally:
            with contextlib.suppress(EnvironmentNotFoundError):
                self.call(wire.destroy(made.name, processes).again())


class Environment:
    """Of a client. info is what was known of it last."""

    def __init__(self, client: Client, info: model.EnvironmentDetail) -> None:
        self.client = client
        self.info = info
        self.name = info.name
        self.phase_in_force = info.phase
        self.generation = info.generation
        self._lock = threading.Lock()

    @property
    def directory(self) -> str:
        """Of its first cgroup, to start processes in."""
        return processes.directory_of(self.info.members[0].cgroup)

    def command(self, *words: str) -> List[str]:
        """The command line that runs words inside, from the first instruction on."""
        return processes.command_in(self.directory, words)

    def refresh(self) -> model.EnvironmentDetail:
        with self._lock:
            self.info = self.client.show(self.name)
            self.phase_in_force, self.generation = self.info.phase, self.info.generation
            return self.info

    def set_phase(self, phase: str, **options: Any) -> model.PhaseChange:
        return self._set_phase(wire.set_phase(self.name, phase, **options))

    def _set_phase(self, request: wire.Request[model.PhaseChange]) -> model.PhaseChange:
        with self._lock:
            change = self.client.call(request)
            self.phase_in_force, self.generation = change.phase, change.generation
            return change

    def update_policy(self, policy: wire.Policy, **options: Any) -> model.PolicyChange:
        with self._lock:
            change = self.client.update_policy(self.name, policy, **options)
            self.generation = change.generation
            return change

    def explain(self, host: str, phase: Optional[str] = None) -> model.Explanation:
        return self.client.explain(self.name, host, phase)

    def verify(self, *, allowed: Optional[str] = None,
               blocked: Optional[str] = None) -> model.Verification:
        return self.client.verify(self.name, allowed=allowed, blocked=blocked)

    def events(self, cursor: Union[int, str, None] = None, *,
               follow: bool = False) -> model.EventPage:
        return self.client.events(cursor, environment=self.name, follow=follow)

    def destroy(self, processes: str = "refuse") -> None:
        self.client.destroy(self.name, processes)

    @contextlib.contextmanager
    def phase(self, phase: str, *, baseline: str = "setup", survivors: str = "kill",
              lease: Optional[int] = None, then: Optional[str] = None,
              renew: bool = True) -> Iterator[PhaseGuard]:
        """A phase for the time of the body. However that ends, the baseline is in force after it,
        and processes of the run that could wait for it are dealt with as survivors says.

        lease: seconds after which the phase falls back to then if this process is gone. With renew
        it is renewed until the body ends, and only while nobody else has switched: what has fallen
        back is never opened again. LeaseLostError says at the end that it did not hold.
        """
        options: Dict[str, Any] = {"survivors": survivors, "lease": lease, "then": then}
        guard = PhaseGuard(self, Renewal(phase, options, lease))
        try:
            guard.change = self.set_phase(phase, **options)
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

    def _restore(self, baseline: str, survivors: str, quiet: bool) -> None:
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
            request = self._renewal.request(environment.name, environment.generation)
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
