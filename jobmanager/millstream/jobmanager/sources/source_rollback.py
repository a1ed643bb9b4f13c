"""The sources of a job between their enumerators and their readers, and how they are brought back for a restore.

Owned by the job manager's loop. A source that restarts as a whole gets its enumerator reset; of one that restarts in
part, the splits that its lost readers were given since the checkpoint go back to the enumerator. Until the enumerator
process has confirmed that, what it sends to those readers is from before, and does not reach them.
"""

from __future__ import annotations

import asyncio
import logging
import pickle
from collections.abc import Callable, Collection, Mapping

from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import VertexId
from millstream.core.messages.sources import (
    EnumeratorEvent,
    EnumeratorsCommand,
    ReaderEvent,
    ResetSource,
    RunningReader,
    Splits,
    SplitsReturned,
)
from millstream.jobmanager.failover.topology import Subtask
from millstream.jobmanager.sources.split_assignments import SplitAssignments

log = logging.getLogger(__name__)
_NO_SPLITS = pickle.dumps([])
_MUCH = 64 << 20  # bytes of splits that a job should not have to remember


class SourceRollback:
    """`send` tells the enumerator process something; it is false when there is none.

    Splits are remembered only for sources in `apart`, whose readers may restart one without the other: where all
    readers restart together, the enumerator's state has everything.
    """

    def __init__(
        self, graph: JobGraph, send: Callable[[EnumeratorsCommand], bool], apart: Collection[VertexId]
    ) -> None:
        self._job_id = graph.job_id
        self._sources = {v.id: v.parallelism for v in graph.vertices if v.source}
        self._send = send
        self._apart = frozenset(apart)
        self._warned = False
        self.assignments = SplitAssignments()
        self._resetting: set[VertexId] = set()
        self._returning: set[Subtask] = set()
        self._unconfirmed = 0
        self._confirmed = asyncio.Event()

    @property
    def any_sources(self) -> bool:
        """Whether the job has sources, and so an enumerator process."""
        return bool(self._sources)

    def to_reader(self, event: EnumeratorEvent) -> bool:
        """Whether what an enumerator sent may go to its reader; splits are remembered until a checkpoint has them."""
        if event.vertex_id in self._resetting:
            return False
        reader = Subtask(event.vertex_id, event.subtask)
        match event.kind:
            case Splits(splits) if reader in self._returning:
                self._give_back(reader, splits)
            case Splits(splits) if event.vertex_id in self._apart:
                self.assignments.assigned(reader, splits)
                self._warn_of_size()
        return reader not in self._returning

    def _warn_of_size(self) -> None:
        if self.assignments.size > _MUCH and not self._warned:
            self._warned = True
            log.warning(
                "job %s: %d MiB of splits are kept in memory, because no checkpoint has completed since they were "
                "given to readers; set execution.checkpointing.interval, or see why checkpoints fail",
                self._job_id,
                self.assignments.size >> 20,
            )

    def forget(self) -> None:
        """A new enumerator process takes the place of the one that all this was about."""
        self.assignments = SplitAssignments()
        self._unconfirmed = 0

    def taken_over(self, readers: Mapping[VertexId, Collection[RunningReader]]) -> None:
        """The readers run on, with these splits since the checkpoint; a new enumerator process knows of them."""
        self.forget()
        for vertex, running in readers.items():
            for reader in running if vertex in self._apart else ():
                for splits in reader.splits:
                    self.assignments.assigned(Subtask(vertex, reader.subtask), splits)

    def begin(self, subtasks: frozenset[Subtask], states: Mapping[VertexId, bytes]) -> None:
        """Has enumerators reset to the states of a checkpoint, and given back what lost readers had been given."""
        for vertex, parallelism in self._sources.items():
            readers = [r for r in (Subtask(vertex, i) for i in range(parallelism)) if r in subtasks]
            taken = {reader: self.assignments.take_back(reader) for reader in readers}
            if len(readers) == parallelism:
                self._resetting.add(vertex)
                self._tell(ResetSource(vertex, states.get(vertex, b""), parallelism))
                continue
            for reader, given in taken.items():
                self._returning.add(reader)
                for splits in given or [_NO_SPLITS]:
                    self._give_back(reader, splits)

    def confirmed(self) -> None:
        """The enumerator process has done one thing that it had to confirm."""
        self._unconfirmed -= 1
        if self._unconfirmed <= 0:
            self._unconfirmed = 0
            self._confirmed.set()

    async def all_confirmed(self, is_wanted: Callable[[], bool]) -> None:
        """Waits until everything is confirmed, or `is_wanted` no longer holds; `interrupt` has that looked at."""
        while self._unconfirmed and is_wanted():
            self._confirmed.clear()
            await self._confirmed.wait()

    def interrupt(self) -> None:
        """Whoever waits looks whether the restore is still wanted."""
        self._confirmed.set()

    def done(self) -> None:
        """The readers are about to run again: what enumerators send them from now on is for them."""
        self._resetting.clear()
        self._returning.clear()

    def _give_back(self, reader: Subtask, splits: bytes) -> None:
        self._tell(ReaderEvent(self._job_id, reader.vertex_id, reader.index, SplitsReturned(splits)))

    def _tell(self, command: EnumeratorsCommand) -> None:
        if self._send(command):
            self._unconfirmed += 1
            self._confirmed.clear()
