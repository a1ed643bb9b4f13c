"""The restarts of one job: what was decided about its failures, and what is to run again, when. Pure.

Failures while a restart is waiting add to it: it takes in their regions, and comes when the last delay has passed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from millstream.jobmanager.execution_graph import Execution, ExecutionGraph
from millstream.jobmanager.failover.history import ExceptionHistory
from millstream.jobmanager.failover.regions import PipelinedRegions
from millstream.jobmanager.failover.restart_strategy import GiveUp, NoRestartStrategy, RestartStrategy
from millstream.jobmanager.failover.topology import JobTopology, Subtask
from millstream.jobmanager.failure_messages import to_failure
from millstream.proto import status_pb2

_FINAL = "the job was not restarted: trying again would not help"


@dataclass(frozen=True, slots=True)
class PendingRestart:
    """Subtasks that are being cancelled, to run again at a time of the steady clock."""

    subtasks: frozenset[Subtask]
    at_ms: int


class JobRestarts:
    """Owned by the JobMaster, which carries the decisions out."""

    def __init__(self, topology: JobTopology, strategy: RestartStrategy, history_size: int) -> None:
        self.history = ExceptionHistory(history_size)
        self.count = 0
        self.pending: PendingRestart | None = None
        self.strategy = strategy
        self._regions = PipelinedRegions(topology)

    def remember(self, failure: status_pb2.TaskFailure) -> None:
        """Adds a failure to the history; nothing else comes of it."""
        self.history.failed(to_failure(failure))

    def decide(
        self, failure: status_pb2.TaskFailure, failed: Collection[Subtask], waiting: frozenset[Subtask], now_ms: int
    ) -> PendingRestart | GiveUp:
        """What is to be done about failed subtasks, while others wait to be deployed."""
        decision = GiveUp(_FINAL) if failure.final else self.strategy.failed(now_ms)
        if isinstance(decision, GiveUp):
            return GiveUp("") if isinstance(self.strategy, NoRestartStrategy) else decision
        before = self.pending or PendingRestart(frozenset(), now_ms)
        affected = before.subtasks | self._regions.affected(failed) | waiting
        self.pending = PendingRestart(affected, max(before.at_ms, now_ms + decision.delay_ms))
        return self.pending

    def cancels(self, execution: Execution) -> bool:
        """Whether the task was told to end, to run again."""
        return self.pending is not None and execution.place in self.pending.subtasks

    def begin_again(self) -> None:
        """All tasks run again, not for a failure of the job's own: no strategy is asked."""
        self.pending = None
        self.history.handled()
        self.count += 1

    def take_due(self, graph: ExecutionGraph, now_ms: int) -> frozenset[Subtask] | None:
        """What runs again now: when the old attempts have all ended and the delay has passed, all of it."""
        pending = self.pending
        if pending is None or now_ms < pending.at_ms:
            return None
        if not all(e.state.is_terminal for e in graph.of(pending.subtasks)):
            return None
        self.pending = None
        self.history.handled()
        self.count += 1
        return pending.subtasks
