# SPDX-License-Identifier: Apache-2.0
"""The client for asyncio: `AsyncClient().environment(...)`. As client.py, call by call."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import http.client
import io
import time
from typing import (Any, AsyncIterator, Coroutine, Dict, List, Optional, Tuple, TypeVar, Union,
                    cast)

from . import model, processes, wire
from .client import logger
from .errors import (AgentUnavailableError, ApiError, ConnectionLostError,
                     EnvironmentNotFoundError, PhasegateError, ReplyTimeoutError,
                     UnsupportedError)
from .lease import Renewal, unique_name

T = TypeVar("T")


class _Text(io.BytesIO):
    """A whole reply, in the place of a socket."""

    def makefile(self, *_: Any, **__: Any) -> io.BytesIO:
        return self


def _parse(text: bytes) -> Tuple[int, str, bytes]:
    response = http.client.HTTPResponse(cast(Any, _Text(text)))
    response.begin()
    return response.status, response.headers.get_content_type(), response.read()


async def _finish(work: Coroutine[Any, Any, T]) -> T:
    """To its end, also when the caller is cancelled meanwhile, which it then hears of."""
    task = asyncio.ensure_future(work)
    cancelled: Optional[asyncio.CancelledError] = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled:
        if not task.cancelled() and task.exception():
            logger.error("while being cancelled: %s", task.exception())
        raise cancelled
    return task.result()


class AsyncClient:
    """Each call is a connection of its own, so tasks may share a client."""

    def __init__(self, socket_path: Optional[str] = None, *, timeout: float = 60,
                 restart: float = 5, interval: float = 0.1) -> None:
        self.settings = wire.Settings(socket_path or wire.default_socket(), timeout, restart,
                                      interval)

    async def call(self, request: wire.Request[T]) -> T:
        """Makes a request; waits for an agent that is being started again."""
        deadline = time.monotonic() + self.settings.restart
        while True:
            try:
                return await self._attempt(request)
            except OSError as error:
                if not wire.is_passing(error) or time.monotonic() >= deadline:
                    raise self.settings.absent(error) from error
            except PhasegateError as error:
                if not wire.may_repeat(request, error) or time.monotonic() >= deadline:
                    raise
            await asyncio.sleep(self.settings.interval)

    async def _attempt(self, request: wire.Request[T]) -> T:
        reader, writer = await asyncio.open_unix_connection(self.settings.socket)
        if not writer.get_extra_info("peername"):
            # asyncio takes EAGAIN, which says that the backlog is full, for a connection.
            writer.transport.abort()
            raise BlockingIOError(errno.EAGAIN, "too many wait to be accepted")
        about = f"{request.method} {request.target}"
        try:
            text = await asyncio.wait_for(self._exchange(request, reader, writer),
                                          self.settings.timeout)
            status, kind, body = _parse(text)
        except asyncio.TimeoutError as error:
            raise ReplyTimeoutError(f"{about}: no reply in {self.settings.timeout} s") from error
        except (OSError, http.client.HTTPException) as error:
            raise ConnectionLostError(f"{about}: {error!r}") from error
        finally:
            writer.close()
        return request.read(status, kind, body)

    @staticmethod
    async def _exchange(request: wire.Request[Any], reader: asyncio.StreamReader,
                        writer: asyncio.StreamWriter) -> bytes:
        payload = request.payload
        head = (f"{request.method} {request.target} HTTP/1.1\r\nHost: localhost\r\n"
                "Connection: close\r\n")
        if payload is not None:
            head += f"Content-Type: application/json\r\nContent-Length: {len(payload)}\r\n"
        writer.write(head.encode("ascii") + b"\r\n" + (payload or b""))
        # It may have refused before it read all of it, and its reply says why.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            await writer.drain()
        return await reader.read()

    async def capabilities(self) -> model.Capabilities:
        return await self.call(wire.capabilities())

    async def require(self, *needs: str) -> model.Capabilities:
        """Raises UnsupportedError unless this host has all of needs (Capabilities.missing)."""
        found = await self.capabilities()
        missing = found.missing(*needs)
        if missing:
            raise UnsupportedError(f"this host lacks {', '.join(missing)}")
        return found

    async def validate(self, policy: wire.Policy, *, form: Optional[str] = None,
                       allow: Optional[wire.Allow] = None) -> model.Validation:
        return await self.call(wire.validate(policy, form, allow))

    async def create(self, name: str, policy: wire.Policy, **options: Any) -> AsyncEnvironment:
        """options: those of POST /v1/environments."""
        return AsyncEnvironment(self, await self.call(wire.create(name, policy, **options)))

    async def get(self, name: str) -> AsyncEnvironment:
        """One that there is."""
        return AsyncEnvironment(self, await self.show(name))

    async def show(self, name: str) -> model.EnvironmentDetail:
        return await self.call(wire.show(name))

    async def environments(self) -> Tuple[model.Environment, ...]:
        return await self.call(wire.environments())

    async def set_phase(self, name: str, phase: str, **options: Any) -> model.PhaseChange:
        """options: expected_generation, survivors, lease (seconds), then."""
        return await self.call(wire.set_phase(name, phase, **options))

    async def update_policy(self, name: str, policy: wire.Policy,
                            **options: Any) -> model.PolicyChange:
        """options: form, allow, expected_generation."""
        return await self.call(wire.update_policy(name, policy, **options))

    async def explain(self, name: str, host: str,
                      phase: Optional[str] = None) -> model.Explanation:
        return await self.call(wire.explain(name, host, phase))

    async def verify(self, name: str, *, allowed: Optional[str] = None,
                     blocked: Optional[str] = None) -> model.Verification:
        """Tries one destination of each kind from inside (HOST:PORT)."""
        return await self.call(wire.verify(name, allowed=allowed, blocked=blocked))

    async def events(self, cursor: Union[int, str, None] = None, *,
                     environment: Optional[str] = None, follow: bool = False) -> model.EventPage:
        return await self.call(wire.events(cursor, environment, follow))

    async def follow(self, cursor: Union[int, str] = "now", *,
                     environment: Optional[str] = None) -> AsyncIterator[model.Event]:
        """Events as they come, without end. Those that were dropped raise CursorExpiredError."""
        while True:
            page = await self.events(cursor, environment=environment, follow=True)
            for event in page.events:
                yield event
            cursor = page.cursor

    async def destroy(self, name: str, processes: str = "refuse") -> None:
        """processes: refuse, kill or release."""
        await self.call(wire.destroy(name, processes))

    @contextlib.asynccontextmanager
    async def environment(self, policy: wire.Policy, name: Optional[str] = None, *,
                          processes: str = "kill",
                          **options: Any) -> AsyncIterator[AsyncEnvironment]:
        """An Environment that is destroyed at the end, with what runs in it. By the same name and
        policy a harness that is started again finds the one that it had."""
        own_name = unique_name()
        creating = asyncio.ensure_future(self.create(name or own_name, policy, **options))
        try:
            made = await _finish(_result(creating))
        except (ApiError, AgentUnavailableError):
            raise
        except BaseException:
            # It may have been made; whose it is otherwise is known by a reply, or by the name.
            with contextlib.suppress(PhasegateError):
                if _has_result(creating):
                    await _finish(self._remove(creating.result().name, processes))
                elif name is None:
                    await _finish(self._remove(own_name, processes))
            raise
        try:
            yield made
        finally:
            await _finish(self._remove(made.name, processes))

    async def _remove(self, name: str, how: str) -> None:
        with contextlib.suppress(EnvironmentNotFoundError):
            await self.call(wire.destroy(name, how).again())


def _has_result(future: asyncio.Future[Any]) -> bool:
    return future.done() and not future.cancelled() and not future.exception()


async def _result(future: asyncio.Future[T]) -> T:
    return await future


class AsyncEnvironment:
    """Of a client. info is what was known of it last."""

    def __init__(self, client: AsyncClient, info: model.EnvironmentDetail) -> None:
        self.client = client
        self.info = info
        self.name = info.name
        self.phase_in_force = info.phase
        self.generation = info.generation
        self._lock = asyncio.Lock()

    @property
    def directory(self) -> str:
        """Of its first cgroup, to start processes in."""
        return processes.directory_of(self.info.members[0].cgroup)

    def command(self, *words: str) -> List[str]:
        """The command line that runs words inside, from the first instruction on."""
        return processes.command_in(self.directory, words)

    async def refresh(self) -> model.EnvironmentDetail:
        async with self._lock:
            self.info = await self.client.show(self.name)
            self.phase_in_force, self.generation = self.info.phase, self.info.generation
            return self.info

    async def set_phase(self, phase: str, **options: Any) -> model.PhaseChange:
        return await self._set_phase(wire.set_phase(self.name, phase, **options))

    async def _set_phase(self, request: wire.Request[model.PhaseChange]) -> model.PhaseChange:
        async with self._lock:
            change = await self.client.call(request)
            self.phase_in_force, self.generation = change.phase, change.generation
            return change

    async def update_policy(self, policy: wire.Policy, **options: Any) -> model.PolicyChange:
        async with self._lock:
            change = await self.client.update_policy(self.name, policy, **options)
            self.generation = change.generation
            return change

    async def explain(self, host: str, phase: Optional[str] = None) -> model.Explanation:
        return await self.client.explain(self.name, host, phase)

    async def verify(self, *, allowed: Optional[str] = None,
                     blocked: Optional[str] = None) -> model.Verification:
        return await self.client.verify(self.name, allowed=allowed, blocked=blocked)

    async def events(self, cursor: Union[int, str, None] = None, *,
                     follow: bool = False) -> model.EventPage:
        return await self.client.events(cursor, environment=self.name, follow=follow)

    async def destroy(self, processes: str = "refuse") -> None:
        await self.client.destroy(self.name, processes)

    @contextlib.asynccontextmanager
    async def phase(self, phase: str, *, baseline: str = "setup", survivors: str = "kill",
                    lease: Optional[int] = None, then: Optional[str] = None,
                    renew: bool = True) -> AsyncIterator[AsyncPhaseGuard]:
        """As Environment.phase(). The baseline is restored when the body is cancelled, too."""
        options: Dict[str, Any] = {"survivors": survivors, "lease": lease, "then": then}
        guard = AsyncPhaseGuard(self, Renewal(phase, options, lease))
        try:
            guard.change = await _finish(self.set_phase(phase, **options))
        except (ApiError, AgentUnavailableError):
            raise
        except BaseException:
            # It may have taken effect.
            await _finish(self._restore(baseline, survivors, True))
            raise
        interrupted = True
        try:
            async with guard.renewing(lease is not None and renew):
                yield guard
            interrupted = False
        except Exception:
            interrupted = False
            raise
        finally:
            await _finish(self._restore(baseline, survivors, interrupted))
        guard.check()

    async def _restore(self, baseline: str, survivors: str, quiet: bool) -> None:
        """quiet: what is under way already says more than a failure of this."""
        request = wire.set_phase(self.name, baseline, survivors=survivors)
        try:
            await self._set_phase(request.again())
        except EnvironmentNotFoundError:
            logger.warning("%s: there is no baseline to restore: it is destroyed", self.name)
        except PhasegateError as error:
            if not quiet:
                raise
            logger.error("%s: %s cannot be restored: %s", self.name, baseline, error)


class AsyncPhaseGuard:
    """What phase() hands out. change is the reply of the switch."""

    change: model.PhaseChange

    def __init__(self, environment: AsyncEnvironment, renewal: Renewal) -> None:
        self.environment = environment
        self._renewal = renewal

    @property
    def lost(self) -> Optional[PhasegateError]:
        """Why the phase is no longer held."""
        return self._renewal.lost

    def check(self) -> None:
        """Raises LeaseLostError if it is no longer held."""
        self._renewal.check(self.environment.name)

    async def renew(self) -> None:
        """Now, for another lease. Does nothing without one."""
        environment = self.environment
        async with environment._lock:
            request = self._renewal.request(environment.name, environment.generation)
            if request is None:
                return
            try:
                self._renewal.done(await environment.client.call(request))
            except PhasegateError as error:
                self._renewal.failed(error)

    @contextlib.asynccontextmanager
    async def renewing(self, wanted: bool) -> AsyncIterator[None]:
        if not wanted:
            yield
            return
        ended = asyncio.Event()

        async def keep() -> None:
            while not ended.is_set():
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(ended.wait(), self._renewal.pause)
                    return
                await self.renew()

        task = asyncio.ensure_future(keep())
        try:
            yield
        finally:
            # Not cancelled: a renewal under way would arrive after the baseline.
            ended.set()
            await _finish(_result(task))
