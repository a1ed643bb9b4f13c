"""The bounds of a job's parallelism in the store, which outlive its job manager."""

from __future__ import annotations

import asyncio

from millstream.core.processes.background import BackgroundTasks
from millstream.core.store.store import StoreError
from millstream.jobmanager.job_master.job_master import JobMaster
from millstream.jobmanager.restore_points import RestorePoints


class StoredBounds:
    """Stores the bounds whenever they change."""

    def __init__(self, master: JobMaster, points: RestorePoints, background: BackgroundTasks) -> None:
        self._master = master
        self._points = points
        self._background = background
        self._stored = master.requirements
        self._turn = asyncio.Lock()

    def observe(self) -> None:
        """Stores the bounds in the background, if they have changed."""
        changed = self._master.requirements != self._stored and not self._master.status.is_terminal
        if changed and not self._turn.locked():
            self._background.spawn(self.store())

    async def store(self) -> str:
        """Stores the bounds; returns an error if that fails, otherwise an empty string."""
        async with self._turn:
            try:
                while (bounds := self._master.requirements) != self._stored:
                    await self._points.require({vertex: (b.lower, b.upper) for vertex, b in bounds.items()})
                    self._stored = bounds
            except StoreError as error:
                return f"another job manager leads the job now, and may or may not rescale it: {error}"
        return ""
