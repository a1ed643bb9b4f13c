"""A job that this job manager leads: its leadership, and the record of its end."""

from __future__ import annotations

import contextlib
import logging

from millstream.core.clock import Clock, Instant
from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import LeaderEpoch
from millstream.core.jobs.job_events import JobEventKind
from millstream.core.jobs.resumption import Resumption
from millstream.core.jobs.states import JobStatus
from millstream.core.logs.failure_texts import cause_line, has_traceback, repetition
from millstream.core.logs.logs import REPORTED
from millstream.core.logs.printable import printable
from millstream.core.messages import task_manager as msg
from millstream.core.messages.resource_manager import Requirement
from millstream.core.store.store import StoreError
from millstream.jobmanager.adaptive.fitting import graph_at
from millstream.jobmanager.job_master.job_master import JobMaster
from millstream.jobmanager.links import Links
from millstream.jobmanager.restore_points import Led

log = logging.getLogger(__name__)


def last_graph(submitted: JobGraph, led: Led) -> JobGraph:
    """Returns the graph as an earlier leader ran it last, possibly rescaled."""
    if not led.follows:
        return submitted
    known = led.stored.attempts
    return graph_at(submitted, {v.id: len(known.get(v.id, ())) or v.parallelism for v in submitted.vertices})


class LedJob:
    """What a job has in common, whether it runs or was refused. `master` is its state machine."""

    def __init__(self, graph: JobGraph, master: JobMaster, links: Links, clock: Clock, led: Led) -> None:
        self.graph = graph
        self.master = master
        self.is_recorded = False
        """Whether the job has ended, and its result is stored."""
        self.report_not_before = 0.0
        """The earliest time of the next report on the loop's clock: large jobs report less often, as it costs more."""
        self._links = links
        self._clock = clock
        self._led = led
        self._resumed, self._resumed_from = Resumption.UNKNOWN, 0
        if led.stored.terms.began_ms:  # the stored value, which all leaders report
            master.state_times[JobStatus.INITIALIZING] = led.stored.terms.began_ms

    @property
    def name(self) -> str:
        """The job in messages of the log."""
        return f"job {self.graph.job_id} ({printable(self.graph.name)})"

    @property
    def epoch(self) -> LeaderEpoch:
        """The epoch of this leadership of the job."""
        return self._led.leadership.epoch

    @property
    def is_reportable(self) -> bool:
        """Whether the dispatcher may be notified of its state: the result of an ended job must be stored before."""
        return self.is_recorded or not self.master.status.is_terminal

    async def stop(self) -> None:
        """Stops what the job manager runs for the job."""

    async def resign(self, reason: str) -> None:
        """Resigns the leadership to the next candidate, and stops the tasks of the job."""
        slots = list(self.master.slots.values())
        await self.leave()
        for slot in slots:
            self._links.command(slot.task_manager, msg.FreeSlot(slot.allocation_id, reason))
        await self._resign_leadership()

    async def hand_over(self) -> None:
        """Resigns the leadership to another job manager, with the running tasks."""
        await self.leave()
        await self._resign_leadership()

    async def _resign_leadership(self) -> None:
        with contextlib.suppress(StoreError):  # the leadership was lost already
            await self._led.points.resign()

    async def leave(self) -> None:
        """Stops running the job here, because another job manager may be its leader; stored data is kept.

        Its tasks continue for a while, so that the next leader can take them over. That may be this job manager again,
        so all messages are sent at once: messages sent after the enumerators have stopped could be attributed to the
        next term.
        """
        self._links.declare(Requirement(self.graph.job_id, 0, epoch=self.epoch))
        for slot in list(self.master.slots.values()):
            answer = msg.OfferAnswer(slot.allocation_id, accepted=False, unknown_job=True)
            self._links.command(slot.task_manager, answer)
        await self.stop()

    def _log_end(self, last_words: str) -> None:
        status = self.master.status
        cause = next(iter(self.master.failures), None) if status is JobStatus.FAILED else None
        if cause is None:
            log.info("%s ended: %s", self.name, status)
            return
        again = f" ({repetition(cause)})" if cause.times > 1 else ""
        trace = f"\n{cause.traceback.rstrip()}" if has_traceback(cause) and not again else ""
        why = f"; {last_words}" if last_words else ""
        text = f"{self.name} ended: {status}{again}: {cause_line(cause)}{why}{trace}"
        log.error("%s", text, extra=REPORTED)
        self.master.remember(JobEventKind.FAILED, f"{cause_line(cause)}{why}", Instant.of(self._clock))

    async def _store_end(self, details: JobDetails) -> bool:
        """Stores the result before files are deleted and it is reported: a next leader must not run the job again.

        Returns false when this job manager has lost the leadership.
        """
        try:
            await self._links.record_end(details, self._led.leadership)
        except StoreError as error:
            log.warning("job %s: leaving its end to the current leader: %s", self.graph.job_id, error)
            return False
        self.is_recorded = True
        return True
