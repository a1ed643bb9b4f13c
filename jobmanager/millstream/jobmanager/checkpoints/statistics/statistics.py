"""Statistics of a job's checkpoints, in Flink's terms: counts, a bounded history, details by task and subtask.

The coordinator writes them, the REST API reads them (`statistics_json`). Details are kept for the checkpoints of the
history and, beyond it, for the latest completed, failed and restored checkpoints and the latest savepoint.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct, field

from millstream.core.clock import Instant
from millstream.core.jobs.barriers import Alignment
from millstream.core.jobs.ids import VertexId
from millstream.core.metrics.histograms import quantile
from millstream.jobmanager.checkpoints.model import (
    CheckpointId,
    CompletedCheckpoint,
    SnapshotMetrics,
    SnapshotOptions,
    TaskRef,
)
from millstream.jobmanager.failover.topology import Subtask


class CheckpointStatus(StrEnum):
    """The status of a checkpoint."""

    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


class SubtaskStats(Struct, frozen=True):
    """One acknowledgement."""

    index: int
    ack_timestamp_ms: int
    end_to_end_ms: int
    metrics: SnapshotMetrics


class VertexStats(Struct):
    """The acknowledgements of one vertex. A subtask that has finished counts as one, with nothing measured."""

    parallelism: int
    subtasks: dict[int, SubtaskStats] = field(default_factory=dict)


class CheckpointStats(Struct):
    """One checkpoint or savepoint."""

    id: CheckpointId
    options: SnapshotOptions
    triggered: Instant
    vertices: dict[VertexId, VertexStats]
    status: CheckpointStatus = CheckpointStatus.IN_PROGRESS
    ended: Instant | None = None
    external_path: str = ""
    discarded: bool = False
    failure_message: str = ""

    @property
    def checkpoint_type(self) -> str:
        """The type, as Flink names it."""
        if self.options.is_savepoint:
            return "SYNC_SAVEPOINT" if self.options.is_stop else "SAVEPOINT"
        return "UNALIGNED_CHECKPOINT" if self.options.alignment is Alignment.UNALIGNED else "CHECKPOINT"

    @property
    def acknowledged(self) -> list[SubtaskStats]:
        """All acknowledgements."""
        return [s for vertex in self.vertices.values() for s in vertex.subtasks.values()]

    @property
    def num_subtasks(self) -> int:
        """How many subtasks the job has."""
        return sum(vertex.parallelism for vertex in self.vertices.values())

    def end_to_end_ms(self, now: Instant) -> int:
        """The duration from the trigger to the end, or until now."""
        return (self.ended or now).steady_ms - self.triggered.steady_ms


class RestoredStats(Struct, frozen=True):
    """The last restore."""

    id: CheckpointId
    restore_timestamp_ms: int
    is_savepoint: bool
    external_path: str


class SavepointStats(Struct, frozen=True):
    """A completed savepoint, remembered longer than the history but with fewer details."""

    id: CheckpointId
    external_path: str
    checkpoint_type: str
    trigger_timestamp_ms: int
    duration_ms: int
    state_bytes: int


class Counts(Struct):
    """How many checkpoints there were, savepoints included."""

    restored: int = 0
    total: int = 0
    in_progress: int = 0
    completed: int = 0
    failed: int = 0


class Distribution(Struct, frozen=True):
    """Minimum, maximum, average and percentiles of some values."""

    min: int = 0
    max: int = 0
    avg: int = 0
    p50: float = 0.0
    p90: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    p999: float = 0.0

    @staticmethod
    def of(values: Iterable[int]) -> Distribution:
        """Computes the distribution; all zero when there are no values."""
        ordered = sorted(values)
        if not ordered:
            return Distribution()
        return Distribution(
            ordered[0],
            ordered[-1],
            sum(ordered) // len(ordered),
            *(round(quantile(ordered, q), 3) for q in (0.5, 0.9, 0.95, 0.99, 0.999)),
        )


class CheckpointStatistics:
    """Owned by the coordinator; readers copy what they need within one step of the loop."""

    SUMMARIZED = 10_000
    SAVEPOINTS = 100

    def __init__(self, parallelism: dict[VertexId, int], history_size: int = 10) -> None:
        self._parallelism = parallelism
        self._in_progress: dict[CheckpointId, CheckpointStats] = {}
        self._ended: deque[CheckpointStats] = deque(maxlen=history_size)
        self._samples: deque[tuple[int, ...]] = deque(maxlen=self.SUMMARIZED)
        self.savepoints: deque[SavepointStats] = deque(maxlen=self.SAVEPOINTS)
        """The last completed savepoints, newest last, kept beyond the few checkpoints of the history."""
        self.counts = Counts()
        self.latest_completed: CheckpointStats | None = None
        self.latest_savepoint: CheckpointStats | None = None
        self.latest_failed: CheckpointStats | None = None
        self.latest_restored: RestoredStats | None = None

    def rescale(self, parallelism: dict[VertexId, int]) -> None:
        """Sets the numbers of subtasks of the checkpoints to come."""
        self._parallelism = parallelism

    def triggered(self, checkpoint_id: CheckpointId, options: SnapshotOptions, now: Instant) -> None:
        """Records that a checkpoint was triggered."""
        vertices = {vertex: VertexStats(parallelism) for vertex, parallelism in self._parallelism.items()}
        self._in_progress[checkpoint_id] = CheckpointStats(checkpoint_id, options, now, vertices)
        self.counts.total += 1
        self.counts.in_progress += 1

    def acknowledged(
        self, checkpoint_id: CheckpointId, subtask: Subtask, metrics: SnapshotMetrics, now: Instant
    ) -> None:
        """Records a task's acknowledgement."""
        stats = self._in_progress[checkpoint_id]
        stats.vertices[subtask.vertex_id].subtasks[subtask.index] = SubtaskStats(
            subtask.index, now.date_ms, stats.end_to_end_ms(now), metrics
        )

    def finished(self, checkpoint_id: CheckpointId, tasks: Iterable[TaskRef], now: Instant) -> None:
        """Records tasks that had finished and take part without a snapshot."""
        for task in tasks:
            if task.subtask.index not in self._in_progress[checkpoint_id].vertices[task.subtask.vertex_id].subtasks:
                self.acknowledged(checkpoint_id, task.subtask, SnapshotMetrics(), now)

    def completed(self, checkpoint_id: CheckpointId, path: str, now: Instant) -> None:
        """Records that a checkpoint completed."""
        stats = self._end(checkpoint_id, CheckpointStatus.COMPLETED, now)
        stats.external_path = path
        self.counts.completed += 1
        metrics = [s.metrics for s in stats.acknowledged]
        if stats.options.is_savepoint:
            self.latest_savepoint = stats
            size, kind = sum(m.state_bytes for m in metrics), stats.checkpoint_type
            duration = stats.end_to_end_ms(now)
            self.savepoints.append(SavepointStats(stats.id, path, kind, stats.triggered.date_ms, duration, size))
        else:
            self.latest_completed = stats
        self._samples.append(
            (
                sum(m.checkpointed_bytes for m in metrics),
                sum(m.state_bytes for m in metrics),
                stats.end_to_end_ms(now),
                sum(m.processed_bytes for m in metrics),
                sum(m.persisted_bytes for m in metrics),
            )
        )

    def failed(self, checkpoint_id: CheckpointId, message: str, now: Instant) -> None:
        """Records that a checkpoint failed or was aborted."""
        stats = self._end(checkpoint_id, CheckpointStatus.FAILED, now)
        stats.failure_message = message
        self.counts.failed += 1
        self.latest_failed = stats

    def discarded(self, checkpoint_id: CheckpointId) -> None:
        """Records that a completed checkpoint was deleted."""
        stats = self.details(checkpoint_id)
        if stats is not None:
            stats.discarded = True

    def restored(self, checkpoint: CompletedCheckpoint, now: Instant) -> None:
        """Records that tasks were restored from a checkpoint."""
        self.counts.restored += 1
        self.latest_restored = RestoredStats(
            checkpoint.checkpoint_id, now.date_ms, checkpoint.content.options.is_savepoint, checkpoint.pointer
        )

    def history(self) -> list[CheckpointStats]:
        """The pending and the last ended checkpoints, newest first."""
        entries = [*self._in_progress.values(), *self._ended]
        return sorted(entries, key=lambda stats: stats.id, reverse=True)

    def details(self, checkpoint_id: CheckpointId) -> CheckpointStats | None:
        """Returns one checkpoint, or None when it is no longer known."""
        return next((stats for stats in self.known() if stats.id == checkpoint_id), None)

    def known(self) -> list[CheckpointStats]:
        """All checkpoints with details, each once, in no particular order."""
        latest = (self.latest_completed, self.latest_savepoint, self.latest_failed)
        entries = (*self._in_progress.values(), *self._ended, *latest)
        return list({stats.id: stats for stats in entries if stats is not None}.values())

    def summary(self) -> tuple[Distribution, Distribution, Distribution, Distribution, Distribution]:
        """Distributions over completed checkpoints: size, duration, processed and persisted data."""
        sizes, states, durations, processed, persisted = (
            Distribution.of(sample[i] for sample in self._samples) for i in range(5)
        )
        return sizes, states, durations, processed, persisted

    def _end(self, checkpoint_id: CheckpointId, status: CheckpointStatus, now: Instant) -> CheckpointStats:
        stats = self._in_progress.pop(checkpoint_id)
        stats.status = status
        stats.ended = now
        self.counts.in_progress -= 1
        self._ended.append(stats)
        return stats
