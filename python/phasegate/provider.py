# SPDX-License-Identifier: Apache-2.0
"""An example of a harness's environment provider: setup, run and verification of a task, each under
its own network policy. Take it as it is, or as a pattern.

A task's commands run in the Environment's own cgroup, or in a running container by `docker exec`.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import tempfile
from typing import AsyncIterator, Dict, List, Optional, Sequence, Tuple

from . import model, processes
from .aio import AsyncClient, AsyncEnvironment
from .errors import UnsupportedError
from .lease import unique_name

Command = Sequence[str]
_PROGRAMS = {"docker": "docker", "podman": "podman", "containerd": "nerdctl"}
# Of an Environment, as docs/openapi.yaml has it.
_NAME_MAX = 64
_FIELDS = ("network_policy", "run_network_policy", "verifier_network_policy")


@dataclasses.dataclass(frozen=True)
class Container:
    name: str
    runtime: Optional[str] = None


@dataclasses.dataclass(frozen=True)
class Task:
    """verifier: same (as the run's Environment), new (one of its own) or host (outside of any, so
    that a verifier_network_policy would not be enforced, and is refused)."""

    run: Command
    setup: Optional[Command] = None
    verify: Optional[Command] = None
    network_policy: Optional[model.NetworkPolicy] = None
    run_network_policy: Optional[model.NetworkPolicy] = None
    verifier_network_policy: Optional[model.NetworkPolicy] = None
    name: str = dataclasses.field(default_factory=unique_name)
    container: Optional[Container] = None
    verifier: model.Verifier = "same"
    verifier_container: Optional[Container] = None
    run_timeout: Optional[float] = None

    @property
    def policy(self) -> Dict[str, Optional[model.NetworkPolicy]]:
        return {name: getattr(self, name) for name in _FIELDS if getattr(self, name) is not None}


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Of one command. status is None if its time was over."""

    status: Optional[int]
    output: str


@dataclasses.dataclass
class Result:
    setup: Optional[Outcome] = None
    run: Optional[Outcome] = None
    verify: Optional[Outcome] = None


def _verifier_name(task: Task) -> str:
    return f"{task.name}-verifier"


class Workspace:
    """An Environment, and how commands are started in it."""

    def __init__(self, environment: AsyncEnvironment, container: Optional[Container]) -> None:
        self.environment = environment
        self.container = container

    def _command(self, words: Command) -> Tuple[List[str], Optional[str]]:
        if self.container:
            program = _PROGRAMS[self.container.runtime or "docker"]
            return [program, "exec", self.container.name, *words], None
        # In a cgroup of its own, so that it can be ended with all that it has started. No other has
        # its name: a harness that has died may have left some.
        directory = tempfile.mkdtemp(prefix="command-", dir=self.environment.directory)
        return processes.command_in(directory, words), directory

    async def execute(self, words: Command, timeout: Optional[float] = None) -> Outcome:
        """Ends when the command does or its time is over; then nothing of it goes on in the cgroup
        (in a container it does, until the phase is switched)."""
        command, directory = self._command(words)
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT)
        output = bytearray()
        status: Optional[int] = None
        reading = asyncio.ensure_future(_read(process, output))
        try:
            with contextlib.suppress(asyncio.TimeoutError):
                status = await asyncio.wait_for(process.wait(), timeout)
        finally:
            if directory:
                processes.kill_all(directory)
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            if directory:
                # Others that it has started may take a moment more; the Environment's end takes it.
                with contextlib.suppress(OSError):
                    os.rmdir(directory)
            # What it has left behind in a container may hold the pipe open.
            await asyncio.wait({reading}, timeout=1)
            reading.cancel()
        return Outcome(status, output.decode(errors="replace"))


async def _read(process: asyncio.subprocess.Process, output: bytearray) -> None:
    assert process.stdout
    while True:
        part = await process.stdout.read(65536)
        if not part:
            return
        output += part


class Provider:
    """lease: seconds after which the run's phase falls back if this harness is gone. needs: what
    the host must be able to enforce, besides what each task's policy says (Capabilities.missing).
    """

    def __init__(self, client: Optional[AsyncClient] = None, *, lease: int = 60,
                 needs: Sequence[str] = ()) -> None:
        self.client = client or AsyncClient()
        self.lease = lease
        self.needs = ("phase_switching", "leases", *needs)

    async def check(self, task: Task) -> None:
        """Refuses what this host cannot enforce, rather than run weaker."""
        if task.verifier == "host" and task.verifier_network_policy is not None:
            raise UnsupportedError("verification on the host is under no policy")
        if task.verifier == "new" and len(_verifier_name(task)) > _NAME_MAX:
            raise ValueError(f"{task.name} leaves no room for the name of its verifier")
        modes = [policy if isinstance(policy, str) else policy["network_mode"]
                 for policy in task.policy.values() if policy is not None]
        await self.client.require(*self.needs, *(f"modes:{mode}" for mode in modes),
                                  f"verifier:{task.verifier}")

    @contextlib.asynccontextmanager
    async def workspace(self, task: Task, name: str, container: Optional[Container],
                        phase: model.Phase = "setup") -> AsyncIterator[Workspace]:
        members = None
        if container:
            member = {"container": container.name}
            if container.runtime:
                member["runtime"] = container.runtime
            members = [member]
        async with self.client.environment(task.policy, name, members=members, phase=phase,
                                           verifier=task.verifier) as environment:
            yield Workspace(environment, container)

    async def execute(self, task: Task) -> Result:
        """The task from setup to verification. The run's time being over is a result, and is
        followed by the verification as any other."""
        await self.check(task)
        result = Result()
        async with self.workspace(task, task.name, task.container) as workspace:
            if task.setup:
                result.setup = await workspace.execute(task.setup)
                if result.setup.status != 0:
                    return result
            async with workspace.environment.phase("run", lease=self.lease):
                result.run = await workspace.execute(task.run, task.run_timeout)
            if task.verify:
                result.verify = await self._verify(task, task.verify, workspace)
        return result

    async def _verify(self, task: Task, words: Command, workspace: Workspace) -> Outcome:
        if task.verifier == "host":
            process = await asyncio.create_subprocess_exec(
                *words, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT)
            output, _ = await process.communicate()
            return Outcome(process.returncode, output.decode(errors="replace"))
        if task.verifier == "new":
            async with self.workspace(task, _verifier_name(task), task.verifier_container,
                                      "verifier") as other:
                return await other.execute(words)
        async with workspace.environment.phase("verifier", lease=self.lease):
            return await workspace.execute(words)
