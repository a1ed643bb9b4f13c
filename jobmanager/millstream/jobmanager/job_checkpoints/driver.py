"""Drives the pure `CheckpointCoordinator`: one event after the other, and by the clock.

Owned by the job manager's loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from millstream.core.clock import Clock, Instant
from millstream.jobmanager.checkpoints import events as ev
from millstream.jobmanager.checkpoints.coordinator import CheckpointCoordinator
from millstream.jobmanager.job_checkpoints.life import Life


class CoordinatorDriver:
    """`carry_out` carries out an effect, and `handled` is called when an event and all that followed are handled."""

    def __init__(
        self,
        coordinator: CheckpointCoordinator,
        life: Life,
        clock: Clock,
        carry_out: Callable[[ev.Effect], None],
        handled: Callable[[], None],
    ) -> None:
        self.coordinator = coordinator
        self.settled = asyncio.Event()
        """Set while no pointer is being stored: the restore point is known."""
        self.settled.set()
        self._life = life
        self._clock = clock
        self._carry_out = carry_out
        self._handled = handled
        self._events: deque[ev.Event] = deque()
        self._handling = False
        self._wake_up: asyncio.TimerHandle | None = None

    def handle(self, event: ev.Event) -> None:
        """Handles an event, after those that it is called during; returns when those that follow are handled too."""
        self._events.append(event)
        if self._handling:
            return
        self._handling = True
        try:
            while self._events:
                for effect in self.coordinator.handle(self._events.popleft(), Instant.of(self._clock)):
                    self._carry_out(effect)
        finally:
            self._handling = False
        self._handled()
        if self.coordinator.settled:
            self.settled.set()
        else:
            self.settled.clear()
        self.schedule()

    async def handle_later(self, event: Awaitable[ev.Event]) -> None:
        """Handles an event once it is known."""
        self.handle(await event)

    def schedule(self) -> None:
        """Sets the timer for the next tick, or none if the life of the checkpoints has ended."""
        if self._wake_up is not None:
            self._wake_up.cancel()
            self._wake_up = None
        at = self.coordinator.next_wake_up() if self._life.is_active else None
        if at is not None:
            delay = max(0, at - Instant.of(self._clock).steady_ms) / 1000
            self._wake_up = asyncio.get_running_loop().call_later(delay, self.handle, ev.Tick())
