"""Checkpoint statistics of a job as JSON, in the shapes of the REST API."""

from __future__ import annotations

import json
from typing import assert_never

from millstream.core.clock import Instant
from millstream.core.errors import MillstreamError
from millstream.core.jobs.ids import VertexId
from millstream.core.messages.queries import JobQuery, JobView
from millstream.jobmanager.checkpoints.model import CheckpointId
from millstream.jobmanager.checkpoints.settings import CheckpointSettings
from millstream.jobmanager.checkpoints.statistics import statistics_json
from millstream.jobmanager.checkpoints.statistics.statistics import CheckpointStatistics, CheckpointStats


class CheckpointReports:
    """Reports over the statistics of one job."""

    def __init__(self, statistics: CheckpointStatistics, settings: CheckpointSettings, state_backend: str) -> None:
        self._statistics = statistics
        self._config = statistics_json.config(settings, state_backend)

    def query(self, query: JobQuery, now: Instant) -> bytes:
        """Returns the result of a query; raises MillstreamError when the checkpoint or vertex is unknown."""
        match query.kind:
            case JobView.CHECKPOINTS:
                return _encoded(statistics_json.overview(self._statistics, now))
            case JobView.CHECKPOINT_CONFIG:
                return _encoded(self._config)
            case JobView.CHECKPOINT_DETAILS:
                return _encoded(statistics_json.checkpoint(self._checkpoint(query), now, with_tasks=True))
            case JobView.CHECKPOINT_SUBTASKS:
                stats, vertex = self._checkpoint(query), VertexId(query.vertex_id)
                if vertex not in stats.vertices:
                    raise MillstreamError(f"job {query.job_id} has no vertex {query.vertex_id}")
                return _encoded(statistics_json.subtasks(stats, vertex, now))
            case JobView.STALL:
                raise AssertionError("a stall is no view of checkpoints")
            case _:
                assert_never(query.kind)

    def everything(self, now: Instant) -> bytes:
        """Returns all results at once, for an ended job: details by checkpoint id, subtasks by id and vertex."""
        known = self._statistics.known()
        return _encoded(
            {
                "overview": statistics_json.overview(self._statistics, now),
                "config": self._config,
                "details": {str(s.id): statistics_json.checkpoint(s, now, with_tasks=True) for s in known},
                "subtasks": {
                    str(s.id): {vertex: statistics_json.subtasks(s, vertex, now) for vertex in s.vertices}
                    for s in known
                },
            }
        )

    def _checkpoint(self, query: JobQuery) -> CheckpointStats:
        stats = self._statistics.details(CheckpointId(query.checkpoint_id))
        if stats is None:
            raise MillstreamError(
                f"job {query.job_id} has no checkpoint {query.checkpoint_id}, or it is no longer in the history"
            )
        return stats


def _encoded(document: statistics_json.Json) -> bytes:
    return json.dumps(document).encode()
