# SPDX-License-Identifier: Apache-2.0
"""A harness, as its author would write it: runs tasks by the example provider and says as a line of
JSON what became of each. The test around it looks at what the servers have seen.

    taskharness.py tasks TASK...   all at once
    taskharness.py hold CREATE LEASE COMMAND...   takes a phase, and stays in it
    taskharness.py take CREATE   takes over from one that has died, and destroys
"""

import asyncio
import contextlib
import dataclasses
import json
import sys

from phasegate import AsyncClient, Client
from phasegate.provider import Container, Provider, Task


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


def main():
    kind, *words = sys.argv[1:]
    if kind == "tasks":
        asyncio.run(run_tasks(list(map(read_task, words))))
    elif kind == "hold":
        create, lease, *command = words
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(hold(json.loads(create), int(lease), command))
    elif kind == "take":
        # The same request again finds the Environment of the harness that has died.
        environment = Client().create(**json.loads(words[0]))
        print(json.dumps({"denied": environment.info.denied, "phase": environment.phase_in_force}))
        environment.destroy("kill")


if __name__ == "__main__":
    main()
