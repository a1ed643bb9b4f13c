"""Mistakes that lose or double records, as those of `seeded_bugs`.

The comparison of what was committed with what was read has to find each of them (`ledger`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any
from unittest.mock import patch

from millstream.core.jobs.graph import OperatorInfo
from millstream.core.jobs.state_kinds import StateKind
from millstream.core.keys import key_groups
from millstream.core.snapshot.tables import redistribution
from millstream.jobmanager import checkpoint_messages, snapshot_content
from millstream.jobmanager.checkpoints.coordinator import CheckpointCoordinator
from millstream.jobmanager.checkpoints.model import CompletedCheckpoint
from millstream.jobmanager.checkpoints.pending import PendingCheckpoint
from millstream.jobmanager.sources.source_rollback import SourceRollback
from millstream.jobmanager.sources.split_assignments import SplitAssignments
from millstream.taskmanager.worker.checkpointing import in_flight
from millstream.taskmanager.worker.checkpointing.alignment import Action, BarrierAligner, Block, TakeSnapshot
from millstream.taskmanager.worker.operators.sinks import committing_sink
from millstream.taskmanager.worker.operators.sinks.transactions import ElementKind, SinkTransactions

Seeded = Iterator[None]


@contextlib.contextmanager
def completes_with_one_acknowledgement_missing() -> Seeded:
    """A checkpoint does not wait for the last of its tasks."""

    def is_acknowledged(self: PendingCheckpoint) -> bool:
        return len(self.snapshots) + len(self.finished) >= max(1, len(self.expected) - 1)

    with patch.object(PendingCheckpoint, "is_acknowledged", property(is_acknowledged)):
        yield


@contextlib.contextmanager
def restores_the_checkpoint_before_the_last() -> Seeded:
    """The restore point is not the newest that is complete."""

    def latest(self: CheckpointCoordinator) -> CompletedCheckpoint | None:
        return self.retained[-2] if len(self.retained) > 1 else last(self)

    last = CheckpointCoordinator.latest_restorable
    with patch.object(CheckpointCoordinator, "latest_restorable", latest):
        yield


@contextlib.contextmanager
def barrier_of_a_channel_not_waited_for() -> Seeded:
    """A task takes its snapshot though one of its channels has not delivered its barrier."""

    def missing(self: BarrierAligner, pending: Any) -> set[int]:
        waits = all_missing(self, pending)
        return waits if len(waits) > 1 else set()

    all_missing = BarrierAligner._missing
    with patch.object(BarrierAligner, "_missing", missing):
        yield


@contextlib.contextmanager
def channels_not_blocked() -> Seeded:
    """Records behind a barrier are taken before the snapshot that they do not belong to."""

    def received(self: BarrierAligner, channel: int, barrier: Any) -> list[Action]:
        return [action for action in real(self, channel, barrier) if not isinstance(action, Block)]

    real = BarrierAligner.received
    with patch.object(BarrierAligner, "received", received):
        yield


@contextlib.contextmanager
def overtaken_records_not_recorded() -> Seeded:
    """An unaligned checkpoint leaves out what its barriers overtake."""

    def complete(self: BarrierAligner) -> list[Action]:
        return [TakeSnapshot(a.barrier) if isinstance(a, TakeSnapshot) else a for a in real(self)]

    real = BarrierAligner._complete
    with patch.object(BarrierAligner, "_complete", complete):
        yield


@contextlib.contextmanager
def aborted_checkpoint_commits() -> Seeded:
    """Tasks are notified of the completion of a checkpoint that was aborted."""

    def notices(checkpoint_id: Any, attempts: Any, _completed: bool, place_of: Any) -> Any:
        return real(checkpoint_id, attempts, True, place_of)

    real = checkpoint_messages.notices
    with patch.object(checkpoint_messages, "notices", notices):
        yield


@contextlib.contextmanager
def all_transactions_are_due() -> Seeded:
    """A completed checkpoint commits also what was pre-committed behind its barrier."""

    def due(self: SinkTransactions[Any], _checkpoint_id: int) -> list[Any]:
        return real(self, 1 << 62)

    real = SinkTransactions.due
    with patch.object(SinkTransactions, "due", due):
        yield


@contextlib.contextmanager
def open_transaction_committed_by_a_restore() -> Seeded:
    """A restore commits all of a transaction that was open at the barrier, also what was written behind it."""

    def recovery(own: Iterable[Any], shown: Iterable[Any]) -> Any:
        closed = {ElementKind.OPEN.value: ElementKind.PRE_COMMITTED.value}
        return real([(closed.get(kind, kind), content) for kind, content in own], shown)

    real = committing_sink.recovery
    with patch.object(committing_sink, "recovery", recovery):
        yield


@contextlib.contextmanager
def key_group_restored_twice() -> Seeded:
    """By the subtask that owns it, and by the one before that."""
    with _key_groups(lambda owned, most: range(owned.start, min(owned.stop + 1, most))):
        yield


@contextlib.contextmanager
def key_group_restored_by_none() -> Seeded:
    """The first of a subtask's, but for the first subtask."""
    with _key_groups(lambda owned, _most: range(owned.start + bool(owned.start), owned.stop)):
        yield


@contextlib.contextmanager
def _key_groups(changed: Callable[[range, int], range]) -> Seeded:
    def owned(subtask: int, max_parallelism: int, parallelism: int) -> range:
        return changed(real(subtask, max_parallelism, parallelism), max_parallelism)

    real = key_groups.key_group_range
    with patch.object(key_groups, "key_group_range", owned), patch.object(redistribution, "key_group_range", owned):
        yield


@contextlib.contextmanager
def timers_not_restored() -> Seeded:
    """The graph lists no timers among the states of the operator."""

    def takes(self: OperatorInfo, kind: StateKind) -> bool:
        return kind is not StateKind.TIMERS and real(self, kind)

    real = OperatorInfo.takes
    with patch.object(OperatorInfo, "takes", takes):
        yield


@contextlib.contextmanager
def states_of_one_subtask_left_out() -> Seeded:
    """The metadata of a checkpoint lists the files of all subtasks but the first."""

    def merged(vertex: Any, operator: Any, parts: Iterable[Any], finished: Any) -> Any:
        known = list(parts)
        return real(vertex, operator, known[1:] if len(known) > 1 else known, finished)

    real = snapshot_content._merged
    with patch.object(snapshot_content, "_merged", merged):
        yield


@contextlib.contextmanager
def splits_assigned_twice_after_a_failover() -> Seeded:
    """What a lost reader was given goes back to the enumerator, also what is part of the checkpoint."""

    def completed(_self: SplitAssignments, _checkpoint_id: int) -> None:
        return

    with patch.object(SplitAssignments, "completed", completed):
        yield


@contextlib.contextmanager
def splits_lost_in_a_failover() -> Seeded:
    """What a lost reader was given since the checkpoint does not go back to the enumerator."""
    with patch.object(SplitAssignments, "take_back", lambda _self, _reader: []):
        yield


@contextlib.contextmanager
def enumerator_starts_from_the_beginning() -> Seeded:
    """It is reset to the beginning, and not to what the checkpoint has of it."""

    def begin(self: SourceRollback, subtasks: Any, _states: Any) -> None:
        real(self, subtasks, {})

    real = SourceRollback.begin
    with patch.object(SourceRollback, "begin", begin):
        yield


@contextlib.contextmanager
def in_flight_records_dropped() -> Seeded:
    """No task sends again what was in flight."""
    with patch.object(in_flight, "share_of", lambda _states, _subtask, _parallelism: {}):
        yield


@contextlib.contextmanager
def in_flight_records_replayed_twice() -> Seeded:
    """Each subtask sends again what was in flight from any of them."""

    def share_of(states: Any, _subtask: int, _parallelism: int) -> Any:
        return real(states, 0, 1)

    real = in_flight.share_of
    with patch.object(in_flight, "share_of", share_of):
        yield


LOSING: Collection[Callable[[], contextlib.AbstractContextManager[None]]] = (
    completes_with_one_acknowledgement_missing,
    restores_the_checkpoint_before_the_last,
    barrier_of_a_channel_not_waited_for,
    channels_not_blocked,
    overtaken_records_not_recorded,
    aborted_checkpoint_commits,
    all_transactions_are_due,
    open_transaction_committed_by_a_restore,
    key_group_restored_twice,
    key_group_restored_by_none,
    timers_not_restored,
    states_of_one_subtask_left_out,
    splits_assigned_twice_after_a_failover,
    splits_lost_in_a_failover,
    enumerator_starts_from_the_beginning,
    in_flight_records_dropped,
    in_flight_records_replayed_twice,
)
"""All of them."""
