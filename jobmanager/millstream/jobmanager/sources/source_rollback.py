"""Forwards events from enumerators to readers, and rolls the enumerators back for a restore.

Owned by the job manager's loop. When all readers of a source restart, its enumerator is reset; when only some do, the
splits that were assigned to them since the checkpoint are returned to the enumerator. Until the enumerator process has
confirmed that, what it sends to those readers was sent before, and is dropped.
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
_MUCH = 64 << 20  # bytes of remembered splits above which a warning is logged


class SourceRollback:
    """`send` sends a command to the enumerator process; it returns false when there is none.

    Splits are remembered only for sources in `apart`, whose readers may restart independently: where all readers
    restart together, the enumerator's state is sufficient.
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
        """Whether the job has sources, and therefore an enumerator process."""
        return bool(self._sources)

    def to_reader(self, event: EnumeratorEvent) -> bool:
        """Whether an event may be forwarded to its reader; remembers splits until a checkpoint includes them."""
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
                "assigned; set execution.checkpointing.interval, or check why checkpoints fail",
                self._job_id,
                self.assignments.size >> 20,
            )

    def forget(self) -> None:
        """Drops all state, when a new enumerator process replaces the previous one."""
        self.assignments = SplitAssignments()
        self._unconfirmed = 0

    def taken_over(self, readers: Mapping[VertexId, Collection[RunningReader]]) -> None:
        """Takes over running readers with the splits assigned to them since the checkpoint."""
        self.forget()
        for vertex, running in readers.items():
            for reader in running if vertex in self._apart else ():
                for splits in reader.splits:
                    self.assignments.assigned(Subtask(vertex, reader.subtask), splits)

    def begin(self, subtasks: frozenset[Subtask], states: Mapping[VertexId, bytes]) -> None:
        """Resets enumerators to the states of a checkpoint, or returns the splits of lost readers to them."""
        for vertex, parallelism in self._sources.items():
            readers = [r for r in (Subtask(vertex, i) for i in range(parallelism)) if r in subtasks]
            taken = {reader: self.assignments.take_back(reader) for reader in readers}
            if len(readers) == parallelism:
                self._resetting.add(vertex)
                self._send_command(ResetSource(vertex, states.get(vertex, b""), parallelism))
                continue
            for reader, given in taken.items():
                self._returning.add(reader)
                for splits in given or [_NO_SPLITS]:
                    self._give_back(reader, splits)

    def confirmed(self) -> None:
        """Handles one confirmation of the enumerator process."""
        self._unconfirmed -= 1
        if self._unconfirmed <= 0:
            self._unconfirmed = 0
            self._confirmed.set()

    async def all_confirmed(self, is_wanted: Callable[[], bool]) -> None:
        """Waits until everything is confirmed, or `is_wanted` returns false, which `interrupt` has checked again."""
        while self._unconfirmed and is_wanted():
            self._confirmed.clear()
            await self._confirmed.wait()

    def interrupt(self) -> None:
        """Makes `all_confirmed` check whether the restore is still wanted."""
        self._confirmed.set()

    def done(self) -> None:
        """Ends the rollback before the readers restart: events of enumerators are forwarded again."""
        self._resetting.clear()
        self._returning.clear()

    def _give_back(self, reader: Subtask, splits: bytes) -> None:
        self._send_command(ReaderEvent(self._job_id, reader.vertex_id, reader.index, SplitsReturned(splits)))

    def _send_command(self, command: EnumeratorsCommand) -> None:
        if self._send(command):
            self._unconfirmed += 1
            self._confirmed.clear()
