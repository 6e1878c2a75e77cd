# SPDX-License-Identifier: Apache-2.0
"""Client of phasegated, the host agent of Phasegate: a harness creates an Environment for each
task, puts its phases in force, and trusts the answer.

    import subprocess

    from phasegate import Client, allowlist

    policy = {"network_policy": "public", "run_network_policy": allowlist("api.example.com"),
              "verifier_network_policy": "no-network"}
    with Client().environment(policy) as environment:
        with environment.phase("run", lease=60):
            subprocess.run(environment.command("./agent"))

AsyncClient is the same for asyncio. Every refusal of the agent is an ApiError, with a class for
each code.
"""

# An alias of the same name is what type checkers take for a re-export.
from .aio import AsyncClient as AsyncClient
from .aio import AsyncEnvironment as AsyncEnvironment
from .aio import AsyncPhaseGuard as AsyncPhaseGuard
from .client import Client as Client
from .client import Environment as Environment
from .client import PhaseGuard as PhaseGuard
from .errors import *  # noqa: F403
from .model import allowlist as allowlist
