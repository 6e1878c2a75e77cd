# SPDX-License-Identifier: Apache-2.0
"""When a lease is renewed, and what its loss is."""

from __future__ import annotations

import time
import uuid
from typing import Any, Dict, Optional

from . import model, wire
from .errors import ApiError, LeaseLostError, PhasegateError


def unique_name() -> str:
    """For an Environment."""
    return f"task-{uuid.uuid4().hex[:20]}"


class Renewal:
    """Of one phase that was taken with a lease."""

    def __init__(self, phase: model.Phase, options: Dict[str, Any],
                 seconds: Optional[int]) -> None:
        self.lost: Optional[PhasegateError] = None
        self.attempts = 0
        self._phase = phase
        self._options = options
        self._seconds = seconds or 0
        self._until = time.monotonic() + self._seconds

    @property
    def pause(self) -> float:
        """Seconds until the next one: three attempts fit into a lease."""
        return max(self._seconds / 3, 0.1)

    def request(self, name: str, in_force: model.Phase,
                generation: int) -> Optional[wire.Request[model.PhaseChange]]:
        """Only for the generation that we know: a renewal must not bring back a phase that has
        fallen back meanwhile, or that somebody else has ended; nor one that we have."""
        if self.lost or not self._seconds:
            return None
        if in_force != self._phase:
            self.lost = LeaseLostError(f"the phase {self._phase} is no longer held: {in_force} was "
                                       "put in force meanwhile")
            return None
        self.attempts += 1
        return wire.set_phase(name, self._phase, expected_generation=generation, **self._options)

    def done(self, change: model.PhaseChange) -> None:
        self._until = time.monotonic() + self._seconds

    def failed(self, error: PhasegateError) -> None:
        """An agent that is away or has no memory may recover in time; a refusal is final."""
        refused = isinstance(error, ApiError) and error.http_status < 500
        if refused or time.monotonic() >= self._until:
            lost = LeaseLostError(f"the phase {self._phase} is no longer held: {error}")
            lost.__cause__ = error
            self.lost = lost

    def check(self, name: str) -> None:
        if self.lost:
            raise LeaseLostError(f"{name}: {self.lost}") from self.lost
