"""Jobs that the dispatcher wants this job manager to leave to another, since it does not hear of them.

A job manager may reach the store and its task managers, but not the dispatcher. It leads its jobs then, and nobody else
can; but their users are shown nothing of them, and can neither cancel nor rescale them. So the dispatcher recalls them
in the store (`millstream.core.store.job_graphs`), and the job manager looks there while it is out of touch.

Silence alone is no reason to leave a job. While dispatchers are being replaced, or when there is no other job manager,
nobody could continue with it: its tasks would be stopped for nothing. The dispatcher that leads knows whether somebody
could, so its word is waited for; that of one that leads no more does not count. Both ends wait for `heartbeat.timeout`
before: a session that broke is back much sooner.

Owned by the job manager's loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from millstream.core.jobs.ids import JobId, LeaderEpoch
from millstream.core.settings.configuration import Configuration
from millstream.core.store.job_graphs import is_recalled
from millstream.core.store.store import Store, StoreError

log = logging.getLogger(__name__)


class Recalls:
    """`led` are the jobs that could be left, with the epochs that they are led under; `leave` leaves one of them."""

    def __init__(
        self,
        store: Store,
        configuration: Configuration,
        led: Callable[[], Mapping[JobId, LeaderEpoch]],
        leave: Callable[[JobId], None],
    ) -> None:
        self._store = store
        self._patience = configuration.seconds("heartbeat.timeout")
        self._interval = configuration.seconds("heartbeat.interval")
        self._led = led
        self._leave = leave
        self._out_of_touch_since: float | None = None

    def in_touch(self) -> None:
        """There is a session with the dispatcher."""
        self._out_of_touch_since = None

    def out_of_touch(self) -> None:
        """There is none any more."""
        self._out_of_touch_since = asyncio.get_running_loop().time()

    async def watch(self) -> None:
        """Runs until cancelled."""
        while True:
            await asyncio.sleep(self._interval)
            try:
                await self.look()
            except StoreError as error:
                log.debug("whether jobs are recalled is not known: %s", error)

    async def look(self) -> None:
        """Once. Raises StoreError."""
        for job_id, epoch in self._led().items() if self._is_patient_no_more() else ():
            recalled = await is_recalled(self._store, job_id, epoch)
            if recalled and self._is_patient_no_more() and self._led().get(job_id) == epoch:
                self._leave(job_id)

    def _is_patient_no_more(self) -> bool:
        since = self._out_of_touch_since
        return since is not None and asyncio.get_running_loop().time() - since >= self._patience
