"""Mistakes that the simulator has to find: each is put into the product, and taken out again.

Each is one line, in a place that everything else relies on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from millstream.core.services import handshake, lease, session
from millstream.core.store.memory import MemoryStore
from millstream.core.store.store import FencedError, Leadership
from millstream.jobmanager import restore_points
from millstream.jobmanager.checkpoint_files import CheckpointFiles
from millstream.jobmanager.checkpoints import completing
from millstream.jobmanager.checkpoints import events as ev
from millstream.jobmanager.recalls import Recalls
from millstream.taskmanager.supervisor.service import TaskManagerService
from millstream.taskmanager.supervisor.slot_table import SlotTable


@contextlib.contextmanager
def epochs_not_compared() -> Iterator[None]:
    """A session begins also with another leader than the one that was looked for."""

    def agrees(*_epochs: Any) -> str:
        return ""

    with patch.object(handshake, "disagreement", agrees), patch.object(session, "disagreement", agrees):
        yield


@contextlib.contextmanager
def writes_not_fenced() -> Iterator[None]:
    """The store takes writes of a leader that another has followed."""

    def replace(self: MemoryStore, key: Any, value: bytes | None, expected: int, under: Leadership) -> int:
        current = self.leader(under.contest)
        if current is None:
            raise FencedError(under)
        return write(self, key, value, expected, Leadership(under.contest, current.epoch))

    write = MemoryStore.replace
    with patch.object(MemoryStore, "replace", replace):
        yield


@contextlib.contextmanager
def lease_never_ends() -> Iterator[None]:
    """A job manager that the dispatcher has given up, and whose jobs it reports as failed, continues with them."""
    with patch.object(lease.Lease, "holds", lambda _self, _now: True):
        yield


@contextlib.contextmanager
def pointer_before_metadata() -> Iterator[None]:
    """The pointer is stored while the metadata is still being written."""
    write_metadata = CheckpointFiles.write_metadata

    async def write_later(self: CheckpointFiles, graph: Any, content: Any, now_ms: int) -> Any:
        writing = asyncio.create_task(write_metadata(self, graph, content, now_ms))
        writing.add_done_callback(lambda done: done.cancelled() or done.exception())
        return ev.MetadataWritten(content.checkpoint_id, self.location(content.checkpoint_id, content.options))

    with patch.object(CheckpointFiles, "write_metadata", write_later):
        yield


@contextlib.contextmanager
def commits_before_pointer() -> Iterator[None]:
    """Tasks are notified of a checkpoint when its metadata is written, before the pointer is stored."""
    metadata_written = completing.Completion.metadata_written

    def told_early(self: Any, checkpoint_id: Any, pointer: str, now: Any) -> list[ev.Effect]:
        effects = metadata_written(self, checkpoint_id, pointer, now)
        attempts = [a for e in effects if isinstance(e, ev.StorePointer) for a in _expected(self, e.checkpoint_id)]
        return [*effects, ev.NotifyComplete(checkpoint_id, tuple(attempts))] if attempts else effects

    def _expected(self: Any, checkpoint_id: Any) -> list[Any]:
        return [a for p in self._state.pending if p.id == checkpoint_id for a in p.expected]

    with patch.object(completing.Completion, "metadata_written", told_early):
        yield


@contextlib.contextmanager
def slot_freed_twice() -> Iterator[None]:
    """A slot is freed once more after a while, by its index: a job that was assigned it meanwhile loses it."""
    freed = TaskManagerService._freed

    def freed_twice(self: TaskManagerService, allocation_id: Any) -> None:
        index = next((a.index for a in self._table.report() if a and a.allocation_id == allocation_id), None)
        freed(self, allocation_id)

        def again() -> None:
            for allocation in self._table.report():
                if allocation is not None and allocation.index == index and not self._stopped:
                    SlotTable.freed(self._table, allocation.allocation_id)
                    self._report_slots()

        asyncio.get_running_loop().call_later(0.5, again)

    with patch.object(TaskManagerService, "_freed", freed_twice):
        yield


@contextlib.contextmanager
def ids_come_again() -> Iterator[None]:
    """Ids of checkpoints are not reserved behind those that an earlier leader has had."""
    with (
        patch.object(restore_points.RestorePoints, "reserve", _reserve_from_one),
        patch.object(restore_points.RestorePoints, "may_use", lambda _self, _id: True),
    ):
        yield


@contextlib.contextmanager
def recalls_not_looked_for() -> Iterator[None]:
    """A job manager that no dispatcher reaches keeps its jobs."""

    async def watch(_self: Any) -> None:
        return

    with patch.object(Recalls, "watch", watch):
        yield


async def _reserve_from_one(_self: Any, _at_least: int) -> int:
    return 1
