# SPDX-License-Identifier: Apache-2.0
"""What a handle of an Environment knows of it, for threads and for asyncio alike."""

from __future__ import annotations

from typing import List, Union

from . import model, processes


class Standing:
    """info is what was known of it last."""

    def __init__(self, info: model.EnvironmentDetail) -> None:
        self.info = info
        self.name = info.name
        self.phase_in_force = info.phase
        self.generation = info.generation
        # Of the last change that was made here, whatever refresh() has seen since.
        self._own_generation = info.generation

    @property
    def directory(self) -> str:
        """Of its first cgroup, to start processes in."""
        return processes.directory_of(self.info.members[0].cgroup)

    def command(self, *words: str) -> List[str]:
        """The command line that runs words inside, from the first instruction on."""
        return processes.command_in(self.directory, words)

    def _is_in(self, phase: model.Phase) -> bool:
        """Not if it was there, in another phase or after a lease."""
        return self.phase_in_force == phase and not self.info.denied

    def _note(self, seen: Union[model.EnvironmentDetail, model.PhaseChange,
                                model.PolicyChange]) -> None:
        self.phase_in_force, self.generation = seen.phase, seen.generation

    def _note_switch(self, change: model.PhaseChange) -> None:
        self._note(change)
        self._own_generation = change.generation

    def _note_update(self, change: model.PolicyChange) -> None:
        self._note(change)
        # Unless there was another change before it, which is not ours.
        if change.generation <= self._own_generation + 1:
            self._own_generation = change.generation
