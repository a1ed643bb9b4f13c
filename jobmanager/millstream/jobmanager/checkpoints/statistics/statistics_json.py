"""Checkpoint statistics in the JSON shapes of Flink's REST API."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import asdict

from millstream.core.clock import Instant
from millstream.core.jobs.ids import VertexId
from millstream.core.snapshot.storage.memory_storage import SCHEME
from millstream.jobmanager.checkpoints.settings import CheckpointSettings, Retention, StorageKind
from millstream.jobmanager.checkpoints.statistics.statistics import (
    CheckpointStatistics,
    CheckpointStats,
    CheckpointStatus,
    Distribution,
    SavepointStats,
    SubtaskStats,
    VertexStats,
)

Json = dict[str, object]
_SUMMARY_NAMES = ("checkpointed_size", "state_size", "end_to_end_duration", "processed_data", "persisted_data")
_NEVER = -1


def overview(statistics: CheckpointStatistics, now: Instant) -> Json:
    """`/jobs/:jobid/checkpoints`."""
    restored = statistics.latest_restored

    def latest(stats: CheckpointStats | None) -> Json | None:
        return checkpoint(stats, now) if stats is not None else None

    summary = {name: asdict(value) for name, value in zip(_SUMMARY_NAMES, statistics.summary(), strict=True)}
    return {
        "counts": asdict(statistics.counts),
        "summary": {**summary, "alignment_buffered": asdict(Distribution())},
        "latest": {
            "completed": latest(statistics.latest_completed),
            "savepoint": latest(statistics.latest_savepoint),
            "failed": latest(statistics.latest_failed),
            "restored": None
            if restored is None
            else {
                "id": restored.id,
                "restore_timestamp": restored.restore_timestamp_ms,
                "is_savepoint": restored.is_savepoint,
                "external_path": _external(restored.external_path),
            },
        },
        "history": [checkpoint(stats, now) for stats in statistics.history()],
        "savepoints": [_savepoint(stats) for stats in reversed(statistics.savepoints)],
    }


def _savepoint(stats: SavepointStats) -> Json:
    """A completed savepoint, with those of Flink's keys that are known beyond the history."""
    return {
        "id": stats.id,
        "external_path": _external(stats.external_path),
        "checkpoint_type": stats.checkpoint_type,
        "trigger_timestamp": stats.trigger_timestamp_ms,
        "end_to_end_duration": stats.duration_ms,
        "state_size": stats.state_bytes,
    }


def checkpoint(stats: CheckpointStats, now: Instant, with_tasks: bool = False) -> Json:
    """An entry of the history, and with tasks `/jobs/:jobid/checkpoints/details/:checkpointid`."""
    result: Json = {
        "className": stats.status.lower(),
        "id": stats.id,
        "status": stats.status.value,
        "is_savepoint": stats.options.is_savepoint,
        "savepointFormat": stats.options.savepoint_format,
        "trigger_timestamp": stats.triggered.date_ms,
        "checkpoint_type": stats.checkpoint_type,
        "end_to_end_duration": stats.end_to_end_ms(now),
        "num_subtasks": stats.num_subtasks,
        **_acknowledgements(stats.acknowledged),
        "tasks": {v: task(stats, v, now) for v in stats.vertices} if with_tasks else {},
    }
    match stats.status:
        case CheckpointStatus.COMPLETED:
            result |= {"external_path": _external(stats.external_path), "discarded": stats.discarded}
        case CheckpointStatus.FAILED:
            assert stats.ended is not None
            result |= {"failure_timestamp": stats.ended.date_ms, "failure_message": stats.failure_message}
        case CheckpointStatus.IN_PROGRESS:
            pass
    return result


def task(stats: CheckpointStats, vertex_id: VertexId, now: Instant) -> Json:
    """The part of one vertex in a checkpoint."""
    vertex = stats.vertices[vertex_id]
    acknowledged = list(vertex.subtasks.values())
    return {
        "id": stats.id,
        "status": stats.status.value,
        "end_to_end_duration": max((s.end_to_end_ms for s in acknowledged), default=_NEVER),
        "num_subtasks": vertex.parallelism,
        **_acknowledgements(acknowledged),
    }


def subtasks(stats: CheckpointStats, vertex_id: VertexId, now: Instant) -> Json:
    """`/jobs/:jobid/checkpoints/details/:checkpointid/subtasks/:vertexid`."""
    vertex = stats.vertices[vertex_id]
    return {
        **task(stats, vertex_id, now),
        "summary": _subtask_summary(list(vertex.subtasks.values())),
        "subtasks": [_subtask(vertex, index) for index in range(vertex.parallelism)],
    }


def config(settings: CheckpointSettings, state_backend: str) -> Json:
    """`/jobs/:jobid/checkpoints/config`."""
    storage = settings.storage or (StorageKind.FILESYSTEM if settings.directory else StorageKind.JOB_MANAGER)
    return {
        "mode": settings.mode.lower(),
        "interval": settings.interval_ms,
        "timeout": settings.timeout_ms,
        "min_pause": settings.min_pause_ms,
        "max_concurrent": settings.max_concurrent,
        "externalization": {
            "enabled": settings.retention is not Retention.NO_EXTERNALIZED_CHECKPOINTS,
            "delete_on_cancellation": settings.retention is not Retention.RETAIN_ON_CANCELLATION,
        },
        "state_backend": state_backend,
        "checkpoint_storage": storage.value,
        "unaligned_checkpoints": settings.unaligned,
        "tolerable_failed_checkpoints": settings.tolerable_failures,
        "aligned_checkpoint_timeout": settings.aligned_timeout_ms,
        "checkpoints_after_tasks_finish": settings.after_tasks_finish,
        "state_changelog_enabled": False,
        "changelog_storage": "",
        "changelog_periodic_materialization_interval": -1,
    }


def _external(pointer: str) -> str:
    """The path that a job can be started from; empty for a checkpoint in the job manager's memory."""
    return "<checkpoint-not-externally-addressable>" if pointer.startswith(SCHEME) else pointer


def _acknowledgements(acknowledged: Sequence[SubtaskStats]) -> Json:
    metrics = [s.metrics for s in acknowledged]
    return {
        "latest_ack_timestamp": max((s.ack_timestamp_ms for s in acknowledged), default=_NEVER),
        "checkpointed_size": sum(m.checkpointed_bytes for m in metrics),
        "state_size": sum(m.state_bytes for m in metrics),
        "alignment_buffered": 0,
        "processed_data": sum(m.processed_bytes for m in metrics),
        "persisted_data": sum(m.persisted_bytes for m in metrics),
        "num_acknowledged_subtasks": len(acknowledged),
    }


def _subtask_summary(acknowledged: Sequence[SubtaskStats]) -> Json:
    def spread(value: Callable[[SubtaskStats], int]) -> Json:
        return asdict(Distribution.of(value(s) for s in acknowledged))

    return {
        "checkpointed_size": spread(lambda s: s.metrics.checkpointed_bytes),
        "state_size": spread(lambda s: s.metrics.state_bytes),
        "end_to_end_duration": spread(lambda s: s.end_to_end_ms),
        "checkpoint_duration": {
            "sync": spread(lambda s: s.metrics.sync_ms),
            "async": spread(lambda s: s.metrics.async_ms),
        },
        "alignment": {
            "buffered": asdict(Distribution()),
            "processed": spread(lambda s: s.metrics.processed_bytes),
            "persisted": spread(lambda s: s.metrics.persisted_bytes),
            "duration": spread(lambda s: s.metrics.alignment_ms),
        },
        "start_delay": spread(lambda s: s.metrics.start_delay_ms),
    }


def _subtask(vertex: VertexStats, index: int) -> Json:
    stats = vertex.subtasks.get(index)
    if stats is None:
        return {"className": "pending", "index": index, "status": "pending_or_failed"}
    metrics = stats.metrics
    return {
        "index": index,
        "className": "completed",
        "status": "completed",
        "ack_timestamp": stats.ack_timestamp_ms,
        "end_to_end_duration": stats.end_to_end_ms,
        "checkpointed_size": metrics.checkpointed_bytes,
        "state_size": metrics.state_bytes,
        "checkpoint": {"sync": metrics.sync_ms, "async": metrics.async_ms},
        "alignment": {
            "buffered": 0,
            "processed": metrics.processed_bytes,
            "persisted": metrics.persisted_bytes,
            "duration": metrics.alignment_ms,
            "waited_for": metrics.waited_for or None,
        },
        "start_delay": metrics.start_delay_ms,
        "unaligned_checkpoint": metrics.unaligned,
        "aborted": False,
    }
