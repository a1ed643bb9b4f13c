"""Recalled jobs: the dispatcher cannot reach this job manager and has another one take over their leadership.

A job manager may reach the store and its task managers, but not the dispatcher. It remains the leader of its jobs then,
so that no other can run them; but users cannot see, cancel or rescale them. So the dispatcher recalls them in the store
(`millstream.core.store.job_graphs`), and the job manager checks for recalls while it is disconnected.

A lost connection alone is no reason to resign. While dispatchers are being replaced, or when there is no other job
manager, no other could continue the job: its tasks would be stopped in vain. The leading dispatcher knows whether
another job manager is available, so the job manager waits for its recall; recalls of a former leader are ignored. Both
sides wait for `heartbeat.timeout` first: a broken session is usually reestablished much sooner.

Owned by the job manager's loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from millstream.core.jobs.ids import JobId, LeaderEpoch
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.services import HEARTBEAT_INTERVAL, HEARTBEAT_TIMEOUT
from millstream.core.store.job_graphs import is_recalled
from millstream.core.store.store import Store, StoreError

log = logging.getLogger(__name__)


class Recalls:
    """`led` returns the jobs that could be left, with the epochs of their leadership; `leave` resigns from one."""

    def __init__(
        self,
        store: Store,
        configuration: Configuration,
        led: Callable[[], Mapping[JobId, LeaderEpoch]],
        leave: Callable[[JobId], None],
    ) -> None:
        self._store = store
        self._patience = configuration.get(HEARTBEAT_TIMEOUT)
        self._interval = configuration.get(HEARTBEAT_INTERVAL)
        self._led = led
        self._leave = leave
        self._out_of_touch_since: float | None = None

    def in_touch(self) -> None:
        """Records that there is a session with the dispatcher."""
        self._out_of_touch_since = None

    def out_of_touch(self) -> None:
        """Records that the session with the dispatcher was lost."""
        self._out_of_touch_since = asyncio.get_running_loop().time()

    async def watch(self) -> None:
        """Runs until cancelled."""
        while True:
            await asyncio.sleep(self._interval)
            try:
                await self.look()
            except StoreError as error:
                log.debug("reading recalls of jobs failed: %s", error)

    async def look(self) -> None:
        """Checks once for recalled jobs, and leaves them. Raises StoreError."""
        for job_id, epoch in self._led().items() if self._is_patient_no_more() else ():
            recalled = await is_recalled(self._store, job_id, epoch)
            if recalled and self._is_patient_no_more() and self._led().get(job_id) == epoch:
                self._leave(job_id)

    def _is_patient_no_more(self) -> bool:
        since = self._out_of_touch_since
        return since is not None and asyncio.get_running_loop().time() - since >= self._patience
