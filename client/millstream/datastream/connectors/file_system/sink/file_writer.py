"""The part files of one subtask of a file sink: which are open, which are finished, which were left behind.

There is one open part for each bucket. Owned by the task's thread.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Sequence

from millstream.core.clock import Clock
from millstream.core.jobs.ids import new_id
from millstream.core.records.batches import Batch
from millstream.datastream.connectors.errors import ConnectorError
from millstream.datastream.connectors.file_system.sink.buckets import BucketAssigner, checked_bucket
from millstream.datastream.connectors.file_system.sink.compaction import Compaction, GatheredParts
from millstream.datastream.connectors.file_system.sink.hidden_names import Owner, savepoint_of
from millstream.datastream.connectors.file_system.sink.open_part import OpenPart
from millstream.datastream.connectors.file_system.sink.part_formats import PartFormat
from millstream.datastream.connectors.file_system.sink.rolling import OutputFileConfig, RollingPolicy
from millstream.datastream.connectors.file_system.transactions import (
    FileTransaction,
    GatheredPart,
    PartState,
    PendingFile,
    keep,
    make_directory,
    publish,
    remove,
    sync_directories,
)
from millstream.datastream.functions import RuntimeContext

log = logging.getLogger(__name__)


class FileWriter:
    """Without checkpoints in the job, a part becomes visible as soon as it is finished."""

    def __init__(
        self,
        directory: str,
        part_format: PartFormat,
        config: OutputFileConfig,
        policy: RollingPolicy,
        assigner: BucketAssigner,
        clock: Clock,
        context: RuntimeContext,
        compaction: Compaction | None = None,
    ) -> None:
        self._directory = directory
        self._format = part_format
        self._config = config
        self._policy = policy
        self._assigner = assigner
        self._clock = clock
        self._owner = Owner.of(context)
        self._parallelism = context.get_number_of_parallel_subtasks()
        self._at_once = not context.is_checkpointing_enabled()
        self._uid = new_id()
        self._next_number = 0
        self._parts: dict[str, OpenPart] = {}
        self._restored = FileTransaction()
        self._gathered = None if compaction is None else GatheredParts(compaction, self._new_name)
        self._is_finished = False
        make_directory(directory)

    def begin(self) -> FileTransaction:
        """The next transaction; the first one holds what restored parts brought along."""
        begun, self._restored = self._restored, FileTransaction()
        return begun

    def write(self, transaction: FileTransaction, batch: Batch) -> None:
        """Writes to the parts of the batch's buckets, and finishes those that are over or full."""
        if not len(batch):
            return
        now = self._clock.monotonic()
        for bucket, records in self._assigner.split(batch, self._clock.now_ms()):
            part = self._parts.get(bucket)
            if part is not None and self._is_over(part, now):
                self._roll(transaction, bucket)
                part = None
            if part is None:
                part = self._parts[bucket] = self._open(checked_bucket(bucket), now)
            part.write(records, now)
            if self._policy.is_full(part.size):
                self._roll(transaction, bucket)

    def _is_over(self, part: OpenPart, now: float) -> bool:
        return self._policy.is_over(part.opened, part.last_write, now)

    def _open(self, bucket: str, now: float, begun: PartState | None = None) -> OpenPart:
        hidden, visible = self._new_name(bucket)
        return OpenPart(hidden, visible, bucket, self._format, now, begun)

    def _new_name(self, bucket: str) -> tuple[str, str]:
        folder = self._directory
        for name in bucket.split("/") if bucket else ():
            folder = os.path.join(folder, name)
            make_directory(folder)
        name = self._config.part_name(self._uid, self._next_number)
        self._next_number += 1
        return os.path.join(folder, self._owner.hide(name)), os.path.join(folder, name)

    def _roll(self, transaction: FileTransaction, bucket: str) -> None:
        file = self._parts[bucket].finish()
        del self._parts[bucket]
        if self._gathered is not None:
            self._gathered.add(file, bucket)
        elif self._at_once:
            publish(FileTransaction([file]))
        else:
            transaction.files.append(file)

    def roll_by_time(self, transaction: FileTransaction) -> None:
        """Finishes the parts that are over, although no records come."""
        now = self._clock.monotonic()
        for bucket in [bucket for bucket, part in self._parts.items() if self._is_over(part, now)]:
            self._roll(transaction, bucket)

    def roll_all(self, transaction: FileTransaction) -> None:
        """Finishes everything."""
        for bucket in list(self._parts):
            self._roll(transaction, bucket)

    def finish(self, transaction: FileTransaction) -> None:
        """Finishes everything: no record follows."""
        self.roll_all(transaction)
        self._is_finished = True
        if self._at_once and self._gathered is not None:
            compacted = FileTransaction()
            self._gathered.compact(compacted, everything=True)
            publish(compacted)

    def pre_commit(self, transaction: FileTransaction) -> None:
        """Finishes parts that end at the checkpoint; the names of all finished parts are durable afterwards."""
        if self._policy.on_checkpoint or not self._format.resumable:
            self.roll_all(transaction)
        else:
            self.roll_by_time(transaction)
        if self._gathered is not None:
            self._gathered.compact(transaction, self._is_finished)
        sync_directories(os.path.dirname(file.hidden) for file in transaction.files)

    def pre_commit_for_savepoint(self, transaction: FileTransaction, savepoint: int) -> None:
        """Finishes everything, under hidden names that no attempt takes for leftovers while the savepoint may be."""
        self.roll_all(transaction)
        if self._gathered is not None:
            self._gathered.compact(transaction, everything=True)
        keep(transaction, self._owner, savepoint)
        sync_directories(os.path.dirname(file.hidden) for file in transaction.files)

    def hold(self) -> list[PartState | GatheredPart]:
        """The parts that continue over the checkpoint, durable up to here, and those that are not enough yet."""
        new = [part.hidden for part in self._parts.values() if not part.held]
        states: list[PartState | GatheredPart] = [part.hold() for part in self._parts.values()]
        gathered = [] if self._gathered is None else self._gathered.hold()
        sync_directories(map(os.path.dirname, [*new, *(part.hidden for part in gathered)]))
        return [*states, *gathered]

    def restore(self, states: Sequence[PartState | GatheredPart]) -> None:
        """Restores the parts in `states`; if a bucket has several, all but the last are finished."""
        now = self._clock.monotonic()
        self._restore_gathered([state for state in states if isinstance(state, GatheredPart)])
        for state in states:
            if isinstance(state, GatheredPart):
                continue
            if not os.path.exists(state.hidden):
                if os.path.exists(state.visible):
                    continue  # committed since: the snapshot is older than what is visible
                raise ConnectorError(
                    f"file sink: {state.hidden} is lost: the restored checkpoint holds {state.length} bytes of it, and "
                    "neither it nor the part that it was to become is there"
                )
            if state.bucket in self._parts:
                self._roll(self._restored, state.bucket)
            self._parts[state.bucket] = self._open(state.bucket, now, state)
            if self._is_own(state.hidden):  # else the snapshot is another job's
                self._restored.superseded.append(state.hidden)

    def _restore_gathered(self, parts: list[GatheredPart]) -> None:
        if self._gathered is not None:
            self._gathered.restore(parts, self._is_own)
            return
        # the sink gathers no more: what it had gathered is finished
        self._restored.files.extend(
            PendingFile(part.hidden, part.visible, True) for part in parts if os.path.exists(part.hidden)
        )

    def _is_own(self, hidden: str) -> bool:
        owner = Owner.from_name(os.path.basename(hidden))
        return owner is not None and owner.operator == self._owner.operator

    def remove_leftovers(
        self,
        known: Sequence[FileTransaction],
        known_states: Sequence[PartState | GatheredPart],
        failed_savepoints: Collection[int],
    ) -> None:
        """Removes the hidden files of dead attempts that neither the restored snapshot nor a savepoint may name.

        Those of other jobs are only logged: they may be running, or be started from a snapshot that holds the files.
        """
        others = 0
        named = {file.hidden for transaction in known for file in transaction.files}
        named |= {state.hidden for state in known_states}
        for folder, _, names in os.walk(self._directory):
            for name in names:
                path, owner = os.path.join(folder, name), Owner.from_name(name)
                if owner is not None and owner.operator != self._owner.operator and path not in named:
                    others += 1
                if owner is None or not self._owner.inherits(owner, self._parallelism) or path in named:
                    continue
                savepoint = savepoint_of(name)
                if savepoint is None or savepoint in failed_savepoints:
                    remove(path)
        if others and (self._owner.subtask, self._owner.attempt) == (0, 0):
            log.warning(
                "%s has %d hidden files (.inprogress, .savepoint) of other jobs or sinks. They stay: delete them when "
                "no other job writes there, and none is to be started from a snapshot that may hold them",
                self._directory,
                others,
            )

    def close(self) -> None:
        """Drops the open parts."""
        parts, self._parts = self._parts, {}
        for part in parts.values():
            part.drop()
        if self._gathered is not None:
            self._gathered.drop()
