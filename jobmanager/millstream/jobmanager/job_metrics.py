"""The metrics of a job that its job manager measures, with Flink's names. Pure."""

from __future__ import annotations

from millstream.core.clock import Instant
from millstream.core.jobs.graph import JobVertex
from millstream.core.messages.sources import EnumeratorFigures
from millstream.core.metrics.model import MetricGroup, Number, Scope
from millstream.jobmanager.checkpoints.statistics.statistics import CheckpointStatistics


def checkpoint_gauges(statistics: CheckpointStatistics, now: Instant) -> dict[str, Number]:
    """Returns the gauges of checkpoints, including savepoints."""
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


def coordinator_groups(vertex: JobVertex, figures: EnumeratorFigures, job: dict[str, str]) -> list[MetricGroup]:
    """Returns the metrics of the coordinator of a source; `job` are the variables of its job."""
    source = vertex.operators[0]
    variables = {**job, "task_id": vertex.id, "operator_id": source.id, "operator_name": source.name}
    counters = {
        "numEventsIn": figures.events_in,
        "numEventsOut": figures.events_out,
        "numSplitsAssigned": figures.splits_assigned,
        "numSplitsReturned": figures.splits_returned,
    }
    readers: dict[str, Number] = {"numRegisteredReaders": figures.readers}
    path = ("coordinator",)
    groups = [MetricGroup(Scope.JOB_MANAGER_OPERATOR, variables, path, path, counters, readers)]
    if figures.unassigned_splits is not None:
        gauges: dict[str, Number] = {"unassignedSplits": figures.unassigned_splits}
        inner = (*path, "enumerator")
        groups.append(MetricGroup(Scope.JOB_MANAGER_OPERATOR, variables, inner, inner, gauges=gauges))
    return groups
