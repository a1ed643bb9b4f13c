"""The metrics of a job, as its job manager knows them, by Flink's names. Pure."""

from __future__ import annotations

from millstream.core.clock import Instant
from millstream.core.jobs.graph import JobVertex
from millstream.core.messages.sources import EnumeratorFigures
from millstream.core.metrics.model import MetricGroup, Number, Scope
from millstream.jobmanager.checkpoints.statistics.statistics import CheckpointStatistics


def checkpoint_gauges(statistics: CheckpointStatistics, now: Instant) -> dict[str, Number]:
    """What became of checkpoints, savepoints counted among them."""
    counts, last, restored = statistics.counts, statistics.latest_completed, statistics.latest_restored
    found: dict[str, Number] = {
        "totalNumberOfCheckpoints": counts.total,
        "numberOfInProgressCheckpoints": counts.in_progress,
        "numberOfCompletedCheckpoints": counts.completed,
        "numberOfFailedCheckpoints": counts.failed,
        "lastCheckpointRestoreTimestamp": -1 if restored is None else restored.restore_timestamp_ms,
    }
    if last is not None:
        measured = [subtask.metrics for subtask in last.acknowledged]
        found |= {
            "lastCheckpointDuration": last.end_to_end_ms(now),
            "lastCheckpointSize": sum(m.checkpointed_bytes for m in measured),
            "lastCheckpointFullSize": sum(m.state_bytes for m in measured),
            "lastCheckpointProcessedData": sum(m.processed_bytes for m in measured),
            "lastCheckpointPersistedData": sum(m.persisted_bytes for m in measured),
            "lastCheckpointCompletedTimestamp": last.ended.date_ms if last.ended is not None else -1,
        }
    return found


def coordinator_groups(vertex: JobVertex, told: EnumeratorFigures, job: dict[str, str]) -> list[MetricGroup]:
    """What the coordinator of a source measures; `job` are the variables of its job."""
    source = vertex.operators[0]
    variables = {**job, "task_id": vertex.id, "operator_id": source.id, "operator_name": source.name}
    counters = {
        "numEventsIn": told.events_in,
        "numEventsOut": told.events_out,
        "numSplitsAssigned": told.splits_assigned,
        "numSplitsReturned": told.splits_returned,
    }
    readers: dict[str, Number] = {"numRegisteredReaders": told.readers}
    path = ("coordinator",)
    groups = [MetricGroup(Scope.JOB_MANAGER_OPERATOR, variables, path, path, counters, readers)]
    if told.unassigned_splits is not None:
        gauges: dict[str, Number] = {"unassignedSplits": told.unassigned_splits}
        inner = (*path, "enumerator")
        groups.append(MetricGroup(Scope.JOB_MANAGER_OPERATOR, variables, inner, inner, gauges=gauges))
    return groups
