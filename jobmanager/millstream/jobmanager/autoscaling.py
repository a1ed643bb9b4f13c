"""Applies the decisions of a job's autoscaler."""

from __future__ import annotations

import logging
from collections.abc import Callable

from millstream.core.clock import Instant
from millstream.core.jobs.job_events import JobEventKind
from millstream.core.jobs.states import ExecutionState
from millstream.core.messages.rescaling import VertexBounds
from millstream.jobmanager.autoscaler.autoscaler import Autoscaler, Decision
from millstream.jobmanager.autoscaler.measured import Reading
from millstream.jobmanager.job_master import events as ev
from millstream.jobmanager.job_master.job_master import JobMaster

log = logging.getLogger(__name__)

BY_ITSELF = "autoscaler"
"""The origin of its requests."""


class Autoscaling:
    """Passes the measurements of a job to its autoscaler; `tell` passes an event to the JobMaster."""

    def __init__(self, autoscaler: Autoscaler, master: JobMaster, tell: Callable[[ev.Event], None]) -> None:
        self._autoscaler = autoscaler
        self._master = master
        self._tell = tell

    def observe(self, now: Instant) -> bool:
        """Passes on the latest measurements, and applies the decision; returns whether there is a new one."""
        master, autoscaler = self._master, self._autoscaler
        executions = master.execution_graph.executions
        up = (ExecutionState.RUNNING, ExecutionState.FINISHED)  # a reader without splits has finished
        if master.is_rescaling or not all(e.state in up for e in executions):
            autoscaler.disturbed()
            return False
        decision = autoscaler.observe(master.graph, Reading.of(executions, now.steady_ms))
        if decision is None or self._is_known(decision):
            return False
        acts = autoscaler.settings.acts
        idle = "" if acts or not decision.parallelism else " (job.autoscaler.scaling.enabled is false)"
        words = f"{decision.reason}{idle}"
        log.info("job %s: decision of the autoscaler: %s", master.graph.job_id, words)
        master.remember(JobEventKind.SCALING_DECISION, words, now)
        if acts and decision.parallelism:
            bounds = tuple(
                VertexBounds(vertex, 1 if vertex in decision.parallelism else bound.lower, wanted)
                for vertex, bound in master.requirements.items()
                for wanted in (decision.parallelism.get(vertex, bound.upper),)
            )
            autoscaler.disturbed()
            self._tell(ev.RescaleRequested(BY_ITSELF, "requested by the autoscaler", bounds=bounds))
        return True

    def _is_known(self, decision: Decision) -> bool:
        """Whether the decision was applied before and waits for slots, or cannot be applied and was reported before."""
        if not decision.parallelism:
            return any(event.message == decision.reason for event in self._master.events)
        return all(self._master.requirements[v].upper == p for v, p in decision.parallelism.items())
