# SPDX-License-Identifier: Apache-2.0
"""A harness, as its author would write it: runs tasks by the example provider and says as a line of
JSON what became of each. The test around it looks at what the servers have seen.

    taskharness.py tasks TASK...   all at once
    taskharness.py hold CREATE LEASE COMMAND...   takes a phase, and stays in it
    taskharness.py take CREATE   takes over from one that has died, and destroys
    taskharness.py cancelled PREFIX COUNT   cancels tasks at any moment, the last by its end
    taskharness.py sidecar NAME MEMBERS   does with the adapter what standard input says
"""

import asyncio
import contextlib
import dataclasses
import json
import random
import sys

from phasegate import AsyncClient, Client
from phasegate.provider import Container, Provider, Task
from phasegate.sidecar import Sidecar


async def run_tasks(tasks):
    provider = Provider(AsyncClient(), lease=20)

    async def one(task):
        try:
            result = await provider.execute(task)
            print(json.dumps({"name": task.name, **dataclasses.asdict(result)}), flush=True)
        except Exception as error:
            print(json.dumps({"name": task.name, "error": repr(error)}), flush=True)

    await asyncio.gather(*map(one, tasks))


def read_task(text):
    fields = json.loads(text)
    for name in ("container", "verifier_container"):
        if name in fields:
            fields[name] = Container(fields[name])
    return Task(**fields)


async def hold(create, lease, words):
    async with AsyncClient().environment(**create) as environment:
        async with environment.phase("run", lease=lease):
            # It is to outlive a harness that is killed.
            if not create.get("members"):
                words = environment.command(*words)
            await asyncio.create_subprocess_exec(*words,
                                                 stdin=asyncio.subprocess.DEVNULL,
                                                 stdout=asyncio.subprocess.DEVNULL,
                                                 start_new_session=True)
            print(json.dumps({"directory": environment.directory}), flush=True)
            await asyncio.sleep(3600)


async def cancelled(prefix, count):
    """A quarter of them in the run, two at random, and the last by the loop's end."""
    client = AsyncClient()
    running = [asyncio.Event() for _ in range(count)]

    async def one(number):
        # Every other one has a name that only the client knows.
        name = f"{prefix}{number}" if number % 2 else None
        async with client.environment({"run_network_policy": "no-network"}, name) as environment:
            async with environment.phase("run", lease=20):
                running[number].set()
                await asyncio.sleep(3600)

    async def end(number):
        if number < count // 4:
            await running[number].wait()
        await asyncio.sleep(random.uniform(0, 1))
        tasks[number].cancel()

    tasks = [asyncio.ensure_future(one(number)) for number in range(count)]
    await asyncio.gather(*map(end, range(count * 3 // 4)))


def drive_sidecar(name, members):
    sidecar = Sidecar(name=name, members=members)
    for line in sys.stdin:
        method, *words = json.loads(line)
        getattr(sidecar, method)(*words)
        print("done", flush=True)


def main():
    kind, *words = sys.argv[1:]
    if kind == "tasks":
        asyncio.run(run_tasks(list(map(read_task, words))))
    elif kind == "hold":
        create, lease, *command = words
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(hold(json.loads(create), int(lease), command))
    elif kind == "cancelled":
        asyncio.run(cancelled(words[0], int(words[1])))
    elif kind == "sidecar":
        drive_sidecar(words[0], json.loads(words[1]))
    elif kind == "take":
        # The same request again finds the Environment of the harness that has died.
        environment = Client().create(**json.loads(words[0]))
        print(json.dumps({"denied": environment.info.denied, "phase": environment.phase_in_force}))
        environment.destroy("kill")


if __name__ == "__main__":
    main()
