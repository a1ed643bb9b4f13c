"""Where the tasks of a slot worker are in its memory, and what they wait for: so that its stacks can be read. Pure."""

from __future__ import annotations

from collections.abc import Collection

from millstream.core.jobs.details import TaskMetrics
from millstream.core.jobs.ids import AttemptId
from millstream.core.messages.inspection import PlacedTask
from millstream.core.messages.task_manager import TaskMetricsReport, TaskUpdate, WorkerMessage
from millstream.taskmanager.stack_reading import FOR_INPUT, FOR_OTHERS, FOR_SOURCES, WAITING


class WorkerPlaces:
    """Of one worker. Owned by the supervisor's loop; what it returns belongs to the caller.

    `running` are the attempts that were deployed to it: reports about others are ignored.
    """

    def __init__(self, running: Collection[str]) -> None:
        self._running = running
        self._tasks: dict[AttemptId, PlacedTask] = {}
        self._metrics: dict[AttemptId, TaskMetrics] = {}
        self._waits: dict[AttemptId, str] = {}

    def received(self, message: WorkerMessage) -> None:
        """A message of the worker."""
        match message:
            case PlacedTask(attempt_id=attempt_id) if attempt_id in self._running:
                self._tasks[attempt_id] = message
            case TaskUpdate(attempt_id=attempt_id, state=state) if state.is_terminal:
                for known in (self._tasks, self._metrics, self._waits):
                    known.pop(attempt_id, None)
            case TaskMetricsReport(tasks=reported):
                for report in (one for one in reported if one.attempt_id in self._running):
                    before = self._metrics.get(report.attempt_id, TaskMetrics())
                    self._metrics[report.attempt_id] = report.metrics
                    self._waits[report.attempt_id] = _held_up_by(before, report.metrics)

    def tasks(self) -> tuple[PlacedTask, ...]:
        """Those that have not ended."""
        return tuple(self._tasks.values())

    def waits(self) -> dict[AttemptId, str]:
        """What each task waited for most, in the interval of its last report."""
        return dict(self._waits)


def _held_up_by(before: TaskMetrics, now: TaskMetrics) -> str:
    times = {
        FOR_INPUT: now.idle_ms - before.idle_ms,
        FOR_OTHERS: now.backpressured_ms - before.backpressured_ms,
        FOR_SOURCES: now.paused_ms - before.paused_ms,
    }
    longest = max(times, key=lambda why: times[why])
    return longest if times[longest] > 0 else WAITING
