"""The restarts of one job: decisions about its failures, and which subtasks restart when. Pure.

Failures while a restart is waiting are added to it: it includes their regions, and starts when the last delay has
passed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct
from msgspec.structs import replace

from millstream.core.jobs.failures import TaskFailure
from millstream.core.logs import tracebacks
from millstream.core.logs.failure_texts import shortened
from millstream.jobmanager.failover.history import ExceptionHistory
from millstream.jobmanager.failover.regions import PipelinedRegions
from millstream.jobmanager.failover.repeated_errors import LIMIT_OPTION, RepeatedErrors, is_crash
from millstream.jobmanager.failover.restart_strategy import Decision, GiveUp, NoRestartStrategy, RestartStrategy
from millstream.jobmanager.failover.topology import JobTopology, Subtask
from millstream.jobmanager.job_master.execution_graph import Execution, ExecutionGraph

_FINAL = "the job was not restarted: a restart would not help"
_RECORD_IN_REASON = 200


class PendingRestart(Struct, frozen=True):
    """Subtasks that are being cancelled and restart at a time of the steady clock, with the number of the restart."""

    subtasks: frozenset[Subtask]
    at_ms: int
    number: int = 0
    delay_ms: int = 0


class JobRestarts:
    """Owned by the JobMaster, which carries out the decisions."""

    def __init__(
        self,
        topology: JobTopology,
        strategy: RestartStrategy,
        history_size: int,
        same_error_limit: int,
        count: int = 0,
    ) -> None:
        self.history = ExceptionHistory(history_size)
        self.count = count
        self.pending: PendingRestart | None = None
        self.strategy = strategy
        self.regions = PipelinedRegions(topology)
        self._repeated = RepeatedErrors(same_error_limit)

    @property
    def decided(self) -> int:
        """The number of restarts, including one that is waiting."""
        return self.count if self.pending is None else self.pending.number

    def remember(self, failure: TaskFailure) -> None:
        """Adds a failure to the history, without any further effect."""
        known = _bounded(failure)
        self.history.failed(replace(known, times=self._repeated.failed(known)))

    def gives_up_on(self, failure: TaskFailure) -> bool:
        """Whether the job has to fail with this failure, even if a restart for another one is waiting."""
        return failure.final or (self._may_restart and self._repeated.is_too_many(_bounded(failure)))

    @property
    def _may_restart(self) -> bool:
        return not isinstance(self.strategy, NoRestartStrategy)

    def decide(
        self, failure: TaskFailure, failed: Collection[Subtask], waiting: frozenset[Subtask], now_ms: int
    ) -> PendingRestart | GiveUp:
        """Decides about failed subtasks, after the failure was remembered, while others wait to be deployed."""
        decision = self._decision(failure, now_ms)
        if isinstance(decision, GiveUp):
            return decision
        before = self.pending or PendingRestart(frozenset(), now_ms, self.count + 1)
        affected = before.subtasks | self.regions.affected(waiting.union(failed))
        at_ms = max(before.at_ms, now_ms + decision.delay_ms)
        self.pending = PendingRestart(affected, at_ms, before.number, at_ms - now_ms)
        self.history.restarts(self.pending.number, self.pending.delay_ms)
        return self.pending

    def _decision(self, failure: TaskFailure, now_ms: int) -> Decision:
        if not self._may_restart:
            return GiveUp("")
        if failure.final:
            return GiveUp(_FINAL)
        known = _bounded(failure)
        if self._repeated.is_too_many(known):
            return GiveUp(
                f"the job was not restarted: {_what_came(known)} {self._repeated.times(known)} times in a row"
                f"{_where(known)}, and {LIMIT_OPTION} is {self._repeated.limit}; set it higher for more restarts, or "
                "to 0 for no limit"
            )
        return self.strategy.failed(now_ms)

    def checkpoint_completed(self, records: Mapping[Subtask, int]) -> None:
        """Handles a completed checkpoint, with the number of records that each subtask had processed before it."""
        self._repeated.checkpoint_completed(records)

    def cancels(self, execution: Execution) -> bool:
        """Whether the task is being cancelled in order to restart."""
        return self.pending is not None and execution.place in self.pending.subtasks

    def begin_again(self) -> None:
        """Restarts all tasks without consulting the restart strategy, since no failure of the job is the reason."""
        self.pending = None
        self.count += 1
        self.history.restarts(self.count, 0)
        self.history.handled()

    def restart_all(self, subtasks: frozenset[Subtask], now_ms: int) -> None:
        """Cancels and restarts all tasks at once, without consulting the restart strategy."""
        number = self.decided if self.pending is not None else self.count + 1
        self.pending = PendingRestart(subtasks, now_ms, number)

    def renumber(self) -> None:
        """Invalidates a pending restore: the next one gets a new number."""
        self.count += 1

    def rescaled(self, topology: JobTopology) -> None:
        """Replaces the topology while no task runs, and resets the counts of repeated errors."""
        self.regions = PipelinedRegions(topology)
        self._repeated.rescaled()

    def take_due(self, graph: ExecutionGraph, now_ms: int) -> frozenset[Subtask] | None:
        """Returns all subtasks to restart, once the old attempts have ended and the delay has passed; else None."""
        pending = self.pending
        if pending is None or now_ms < pending.at_ms:
            return None
        if not all(e.state.is_terminal for e in graph.of(pending.subtasks)):
            return None
        self.pending = None
        self.history.handled()
        self._repeated.restarted(pending.subtasks)
        self.count += 1
        return pending.subtasks


def _bounded(failure: TaskFailure) -> TaskFailure:
    """Shortens a failure to the length that is kept: a user's exception may be of any length."""
    exception = tracebacks.shortened(failure.exception, tracebacks.LONGEST_LINE)
    return replace(failure, exception=exception, traceback=tracebacks.shortened(failure.traceback))


def _what_came(failure: TaskFailure) -> str:
    return "one of its processes ended by itself" if is_crash(failure) else "the same error occurred"


def _where(failure: TaskFailure) -> str:
    if is_crash(failure):
        return " without a checkpoint in between that includes new records"
    return f" at the record {shortened(failure.record, _RECORD_IN_REASON)}"
