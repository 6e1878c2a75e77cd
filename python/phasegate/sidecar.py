# SPDX-License-Identifier: Apache-2.0
"""Phasegate behind the interface that back ends with a proxy in a side-car have: start, set_policy,
stop. One policy at a time, and no proxy: nothing has to be set in the container."""

from __future__ import annotations

from typing import Dict, Mapping, Optional, Sequence

from . import wire
from .client import Client, Environment
from .errors import EnvironmentNotFoundError
from .lease import unique_name
from .model import NetworkPolicy, Processes, allowlist


def _policy(network_mode: str, allowed_hosts: Sequence[str]) -> Mapping[str, NetworkPolicy]:
    if network_mode == "allowlist":
        return {"network_policy": allowlist(*allowed_hosts)}
    if allowed_hosts:
        raise ValueError(f"allowed_hosts have no meaning with {network_mode}")
    return {"network_policy": network_mode}


class Sidecar:
    """members: containers, processes or cgroups; without any, a cgroup in which containers can be
    started (cgroup_parent)."""

    def __init__(self, client: Optional[Client] = None, *,
                 members: Optional[Sequence[wire.MemberInput]] = None,
                 name: Optional[str] = None) -> None:
        self.client = client or Client()
        self.name = name or unique_name()
        self.members = members
        self.environment: Optional[Environment] = None

    @property
    def running(self) -> Environment:
        if not self.environment:
            raise RuntimeError(f"{self.name} is not started")
        return self.environment

    @property
    def cgroup_parent(self) -> Optional[str]:
        return self.running.info.cgroup_parent

    @property
    def variables(self) -> Dict[str, str]:
        """That a proxy would have the container's environment hold: none."""
        return {}

    def start(self, network_mode: str = "no-network", allowed_hosts: Sequence[str] = ()) -> None:
        """The policy is in force when it returns."""
        self.environment = self.client.create(self.name, _policy(network_mode, allowed_hosts),
                                              members=self.members)

    def set_policy(self, network_mode: str, allowed_hosts: Sequence[str] = ()) -> None:
        """In force when it returns; connections that it does not allow are closed."""
        self.running.update_policy(_policy(network_mode, allowed_hosts))

    def stop(self, processes: Processes = "kill") -> None:
        """Ends what runs in it, since it would go on without any confinement; a container that
        still runs is left so only with processes="release"."""
        if self.environment:
            try:
                self.environment.destroy(processes)
            except EnvironmentNotFoundError:
                pass
            self.environment = None

    def __enter__(self) -> Sidecar:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
