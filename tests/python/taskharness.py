# SPDX-License-Identifier: Apache-2.0
"""A harness, as its author would write it: runs tasks by the example provider and says as a line of
JSON what became of each. The test around it looks at what the servers have seen.

    taskharness.py tasks TASK...   all at once
    taskharness.py hold NAME POLICY LEASE COMMAND...   takes a phase, and stays in it
    taskharness.py take NAME POLICY   takes over from one that has died, and destroys
"""

import asyncio
import contextlib
import dataclasses
import json
import sys

from phasegate import AsyncClient, Client
from phasegate.provider import Provider, Task


async def run_tasks(tasks):
    provider = Provider(AsyncClient(), lease=20)

    async def one(task):
        try:
            result = await provider.execute(task)
            print(json.dumps({"name": task.name, **dataclasses.asdict(result)}), flush=True)
        except Exception as error:
            print(json.dumps({"name": task.name, "error": repr(error)}), flush=True)

    await asyncio.gather(*map(one, tasks))


async def hold(name, policy, lease, words):
    async with AsyncClient().environment(policy, name) as environment:
        async with environment.phase("run", lease=lease):
            # It is to outlive a harness that is killed.
            await asyncio.create_subprocess_exec(*environment.command(*words),
                                                 stdin=asyncio.subprocess.DEVNULL,
                                                 stdout=asyncio.subprocess.DEVNULL,
                                                 start_new_session=True)
            print(json.dumps({"directory": environment.directory}), flush=True)
            await asyncio.sleep(3600)


def main():
    kind, *words = sys.argv[1:]
    if kind == "tasks":
        asyncio.run(run_tasks([Task(**json.loads(word)) for word in words]))
    elif kind == "hold":
        name, policy, lease, *command = words
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(hold(name, json.loads(policy), int(lease), command))
    elif kind == "take":
        # The same request again finds the Environment of the harness that has died.
        name, policy = words
        environment = Client().create(name, json.loads(policy))
        print(json.dumps({"denied": environment.info.denied, "phase": environment.phase_in_force}))
        environment.destroy("kill")


if __name__ == "__main__":
    main()
