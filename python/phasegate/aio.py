# SPDX-License-Identifier: Apache-2.0
"""The client for asyncio: `AsyncClient().environment(...)`. As client.py, call by call."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import http.client
import io
import time
from typing import (Any, AsyncIterator, Callable, Coroutine, Dict, List, Mapping, Optional,
                    Sequence, Tuple, TypeVar, Union, cast)

from . import model, processes, wire
from .client import logger
from .errors import (AgentUnavailableError, ApiError, ConnectionLostError,
                     EnvironmentNotFoundError, PhasegateError, ReplyTimeoutError,
                     UnsupportedError)
from .lease import Renewal, unique_name
from .standing import Standing

T = TypeVar("T")
# To do what must be done, where somebody cancels all that there is.
_ATTEMPTS = 4


class _Text(io.BytesIO):
    """A whole reply, in the place of a socket."""

    def makefile(self, *_: Any, **__: Any) -> io.BytesIO:
        return self


def _parse(text: bytes) -> Tuple[int, str, bytes]:
    response = http.client.HTTPResponse(cast(Any, _Text(text)))
    response.begin()
    return response.status, response.headers.get_content_type(), response.read()


async def _ended(task: asyncio.Future[Any]) -> Optional[asyncio.CancelledError]:
    """Waits for the end of a task, also when the caller is cancelled meanwhile: returns that."""
    cancelled: Optional[asyncio.CancelledError] = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    return cancelled


async def _finish(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Does it to its end, also when the caller is cancelled meanwhile, which it then hears of; and
    does it again if it is cancelled itself, as asyncio.run() does at its end with every task."""
    cancelled: Optional[asyncio.CancelledError] = None
    for _ in range(_ATTEMPTS):
        task = asyncio.ensure_future(work())
        cancelled = await _ended(task) or cancelled
        if not task.cancelled():
            break
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
        reader, writer = await self._connect()
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

    async def _connect(self) -> Tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Waits in line where the backlog is full. asyncio takes EAGAIN, which says so, for a
        connection."""
        deadline = time.monotonic() + self.settings.timeout
        while True:
            reader, writer = await asyncio.open_unix_connection(self.settings.socket)
            if writer.get_extra_info("peername"):
                return reader, writer
            writer.transport.abort()
            if time.monotonic() >= deadline:
                raise BlockingIOError(errno.EAGAIN, "too many wait to be accepted")
            await asyncio.sleep(self.settings.interval)

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
        """What this host can enforce."""
        return await self.call(wire.capabilities())

    async def require(self, *needs: str) -> model.Capabilities:
        """Raises UnsupportedError unless this host has all of needs (Capabilities.missing)."""
        found = await self.capabilities()
        missing = found.missing(*needs)
        if missing:
            raise UnsupportedError(f"this host lacks {', '.join(missing)}")
        return found

    async def validate(self, policy: wire.Policy, *, form: Optional[model.Form] = None,
                       allow: Optional[wire.Allow] = None) -> model.Validation:
        """Whether a policy is one, and what is wrong with it; nothing is done by it."""
        return await self.call(wire.validate(policy, form, allow))

    async def create(self, name: str, policy: wire.Policy, *, form: Optional[model.Form] = None,
                     allow: Optional[wire.Allow] = None,
                     members: Optional[Sequence[wire.MemberInput]] = None,
                     attach: Optional[bool] = None, phase: Optional[model.Phase] = None,
                     verifier: Optional[model.Verifier] = None,
                     member_traffic: Optional[model.MemberTraffic] = None,
                     report_denials: Optional[bool] = None,
                     dns: Optional[Mapping[str, Any]] = None,
                     accept: Optional[Sequence[str]] = None) -> AsyncEnvironment:
        """Its phase is in force when this returns; the same again finds it. The options are those
        of POST /v1/environments."""
        return AsyncEnvironment(self, await self.call(wire.create(
            name, policy, form=form, allow=allow, members=members, attach=attach, phase=phase,
            verifier=verifier, member_traffic=member_traffic, report_denials=report_denials,
            dns=dns, accept=accept)))

    async def get(self, name: str) -> AsyncEnvironment:
        """One that there is."""
        return AsyncEnvironment(self, await self.show(name))

    async def show(self, name: str) -> model.EnvironmentDetail:
        """One with its policy, warnings and counters."""
        return await self.call(wire.show(name))

    async def environments(self) -> Tuple[model.Environment, ...]:
        """Those of this user; root's are all."""
        return await self.call(wire.environments())

    async def set_phase(self, name: str, phase: model.Phase, *,
                        expected_generation: Optional[int] = None,
                        survivors: Optional[model.Survivors] = None,
                        lease: Optional[int] = None,
                        then: Optional[model.LeaseEnd] = None) -> model.PhaseChange:
        """lease: seconds after which the phase falls back to then. expected_generation: unless this
        one is in force, GenerationMismatchError says which is."""
        return await self.call(wire.set_phase(name, phase, expected_generation=expected_generation,
                                           survivors=survivors, lease=lease, then=then))

    async def update_policy(self, name: str, policy: wire.Policy, *,
                            form: Optional[model.Form] = None, allow: Optional[wire.Allow] = None,
                            expected_generation: Optional[int] = None) -> model.PolicyChange:
        """Another policy in the same phase. If it fails the old one stays in force."""
        return await self.call(wire.update_policy(
            name, policy, form=form, allow=allow, expected_generation=expected_generation))

    async def explain(self, name: str, host: str,
                      phase: Optional[model.Phase] = None) -> model.Explanation:
        """Whether a phase, the one in force unless given, allows a host, and by which entry."""
        return await self.call(wire.explain(name, host, phase))

    async def verify(self, name: str, *, allowed: Optional[str] = None,
                     blocked: Optional[str] = None,
                     without: Sequence[str] = ()) -> model.Verification:
        """Tries from inside one destination of each kind (HOST:PORT), and the ways around but for
        the vectors that it goes without."""
        return await self.call(wire.verify(name, allowed=allowed, blocked=blocked,
                                           without=without))

    async def events(self, cursor: Union[int, str, None] = None, *,
                     environment: Optional[str] = None, follow: bool = False) -> model.EventPage:
        """Those that are kept, from the cursor of an earlier page on, or "now"; of an Environment
        from its creation on, with "oldest" of earlier ones of its name, too. follow: waits for one
        if there is none yet, up to 25 seconds."""
        return await self.call(wire.events(cursor, environment, follow))

    async def follow(self, cursor: Union[int, str] = "now", *,
                     environment: Optional[str] = None) -> AsyncIterator[model.Event]:
        """Events as they come, without end. Those that were dropped raise CursorExpiredError."""
        while True:
            page = await self.events(cursor, environment=environment, follow=True)
            for event in page.events:
                yield event
            cursor = page.cursor

    async def destroy(self, name: str, processes: model.Processes = "refuse") -> None:
        """processes: what becomes of those inside; released ones go on without confinement."""
        await self.call(wire.destroy(name, processes))

    @contextlib.asynccontextmanager
    async def environment(self, policy: wire.Policy, name: Optional[str] = None, *,
                          processes: model.Processes = "kill",
                          form: Optional[model.Form] = None, allow: Optional[wire.Allow] = None,
                          members: Optional[Sequence[wire.MemberInput]] = None,
                          attach: Optional[bool] = None, phase: Optional[model.Phase] = None,
                          verifier: Optional[model.Verifier] = None,
                          member_traffic: Optional[model.MemberTraffic] = None,
                          report_denials: Optional[bool] = None,
                          dns: Optional[Mapping[str, Any]] = None,
                          accept: Optional[Sequence[str]] = None
                          ) -> AsyncIterator[AsyncEnvironment]:
        """An Environment that is destroyed at the end, with what runs in it. By the same name and
        policy a harness that is started again finds the one that it had, and puts its first phase
        in force again."""
        request = wire.create(
            name or unique_name(), policy, form=form, allow=allow, members=members, attach=attach,
            phase=phase, verifier=verifier, member_traffic=member_traffic,
            report_denials=report_denials, dns=dns, accept=accept)
        replies: List[model.EnvironmentDetail] = []

        async def make() -> None:
            replies.append(await self.call(request))

        try:
            await _finish(make)
        except (ApiError, AgentUnavailableError):
            raise
        except BaseException:
            # It may have been made. That it is ours a reply tells, or a name that nobody else has.
            if replies or name is None:
                with contextlib.suppress(PhasegateError):
                    await _finish(lambda: self._remove(request.name, processes))
            raise
        made = AsyncEnvironment(self, replies[-1])
        try:
            await made._begin(phase or "setup")
            yield made
        finally:
            await _finish(lambda: self._remove(made.name, processes))

    async def _remove(self, name: str, how: model.Processes) -> None:
        with contextlib.suppress(EnvironmentNotFoundError):
            await self.call(wire.destroy(name, how).again())


class AsyncEnvironment(Standing):
    """Of a client. info is what was known of it last."""

    def __init__(self, client: AsyncClient, info: model.EnvironmentDetail) -> None:
        super().__init__(info)
        self.client = client
        self._lock = asyncio.Lock()

    async def refresh(self) -> model.EnvironmentDetail:
        """Asks for what is in force now."""
        async with self._lock:
            self.info = await self.client.show(self.name)
            self._note(self.info)
            return self.info

    async def _begin(self, phase: model.Phase) -> None:
        if not self._is_in(phase):
            await self.set_phase(phase)

    async def set_phase(self, phase: model.Phase, *, expected_generation: Optional[int] = None,
                        survivors: Optional[model.Survivors] = None,
                        lease: Optional[int] = None,
                        then: Optional[model.LeaseEnd] = None) -> model.PhaseChange:
        """As that of the client. For good, unless with a lease: phase() is for a time."""
        return await self._set_phase(wire.set_phase(
            self.name, phase, expected_generation=expected_generation, survivors=survivors,
            lease=lease, then=then))

    async def _set_phase(self, request: wire.Request[model.PhaseChange]) -> model.PhaseChange:
        async with self._lock:
            change = await self.client.call(request)
            self._note_switch(change)
            return change

    async def update_policy(self, policy: wire.Policy, *, form: Optional[model.Form] = None,
                            allow: Optional[wire.Allow] = None,
                            expected_generation: Optional[int] = None) -> model.PolicyChange:
        """As that of the client."""
        async with self._lock:
            change = await self.client.update_policy(
                self.name, policy, form=form, allow=allow,
                expected_generation=expected_generation)
            self._note_update(change)
            return change

    async def explain(self, host: str,
                      phase: Optional[model.Phase] = None) -> model.Explanation:
        return await self.client.explain(self.name, host, phase)

    async def verify(self, *, allowed: Optional[str] = None, blocked: Optional[str] = None,
                     without: Sequence[str] = ()) -> model.Verification:
        return await self.client.verify(self.name, allowed=allowed, blocked=blocked,
                                        without=without)

    async def events(self, cursor: Union[int, str, None] = None, *,
                     follow: bool = False) -> model.EventPage:
        return await self.client.events(cursor, environment=self.name, follow=follow)

    async def destroy(self, processes: model.Processes = "refuse") -> None:
        await self.client.destroy(self.name, processes)

    @contextlib.asynccontextmanager
    async def phase(self, phase: model.Phase, *, baseline: model.Phase = "setup",
                    survivors: model.Survivors = "kill", lease: Optional[int] = None,
                    then: Optional[model.LeaseEnd] = None,
                    renew: bool = True) -> AsyncIterator[AsyncPhaseGuard]:
        """As Environment.phase(). The baseline is restored when the body is cancelled, too."""
        options: Dict[str, Any] = {"survivors": survivors, "lease": lease, "then": then}
        request = wire.set_phase(self.name, phase, **options)
        guard = AsyncPhaseGuard(self, Renewal(phase, options, lease))
        try:
            guard.change = await _finish(lambda: self._set_phase(request))
        except (ApiError, AgentUnavailableError):
            raise
        except BaseException:
            # It may have taken effect.
            await _finish(lambda: self._restore(baseline, survivors, True))
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
            await _finish(lambda: self._restore(baseline, survivors, interrupted))
        guard.check()

    async def _restore(self, baseline: model.Phase, survivors: model.Survivors,
                       quiet: bool) -> None:
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
            request = self._renewal.request(environment.name, environment.phase_in_force,
                                            environment._own_generation)
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
            cancelled = await _ended(task)
            if not task.cancelled():
                task.result()
            if cancelled:
                raise cancelled
