"""The state of one job, which the parts of its JobMaster share, and what the rest of the job manager reads of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping

from millstream.core.clock import Instant
from millstream.core.jobs.earlier_attempts import AttemptHistory
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import AllocationId, AttemptId, VertexId
from millstream.core.jobs.job_events import JobEvent, JobEventKind
from millstream.core.jobs.rescales import RescaleHistory
from millstream.core.jobs.states import ExecutionState, JobStatus, check_job_transition
from millstream.jobmanager.adaptive.bounds import Requirements
from millstream.jobmanager.failover.history import ExceptionHistory
from millstream.jobmanager.failover.restart_strategy import RestartStrategy
from millstream.jobmanager.failover.topology import JobTopology, Subtask
from millstream.jobmanager.job_master import events as ev
from millstream.jobmanager.job_master.execution_graph import Execution, ExecutionGraph, Slot, SlotKey
from millstream.jobmanager.job_master.job_restarts import JobRestarts
from millstream.jobmanager.job_master.job_slots import JobSlots, Place
from millstream.jobmanager.job_master.rescale import Rescale
from millstream.jobmanager.job_master.settings import JobMasterSettings, Succeeding
from millstream.jobmanager.job_master.takeover import Takeover

ENDING = (JobStatus.FAILING, JobStatus.CANCELLING)
NOT_ENDING = (JobStatus.CREATED, JobStatus.RUNNING, JobStatus.RESTARTING)
_UP = (ExecutionState.RUNNING, ExecutionState.FINISHED)
_REMEMBERED = 64


class JobState:
    """Changed by the parts of the JobMaster only. `slot_table`, `restarting` and `suspended` are theirs."""

    def __init__(
        self,
        graph: JobGraph,
        settings: JobMasterSettings,
        now: Instant,
        strategy: RestartStrategy,
        succeeding: Succeeding | None,
    ) -> None:
        self.graph = graph
        self.settings = settings
        self.topology = JobTopology.of(graph)
        self.execution_graph = (
            ExecutionGraph(graph, now.date_ms, succeeding.latest)
            if succeeding is not None
            else ExecutionGraph(graph, now.date_ms)
        )
        self.execution_graph.earlier = AttemptHistory(settings.attempts_size)
        self.status = JobStatus.INITIALIZING
        self.state_times: dict[str, int] = {JobStatus.INITIALIZING: now.date_ms}
        self.message = ""
        self.restarting = JobRestarts(
            self.topology,
            strategy,
            settings.history_size,
            settings.same_error_limit,
            succeeding.restarts if succeeding is not None else 0,
        )
        self.slot_table = JobSlots(self.execution_graph.slot_keys())
        self.all_subtasks = frozenset(self.topology.subtasks())
        self.suspended = False
        self.takeover: Takeover | None = None
        self.rescale: Rescale | None = None
        self.bounds: Requirements = {}
        self.left_over: Requirements | None = None
        """Bounds that an earlier leader had accepted, until the job is rescaled to them."""
        self.rescales = RescaleHistory()
        """The last rescales, including the first start; empty for a job that cannot be rescaled."""
        self.keeps_checkpoints = False
        """Whether the job was suspended or abandoned, so that all its checkpoints are kept after its end."""
        self._events: deque[JobEvent] = deque(maxlen=_REMEMBERED)

    # Slots

    @property
    def slots_required(self) -> int:
        """The total number of slots that the job needs."""
        return self.slot_table.required

    @property
    def slots_wanted(self) -> int:
        """The number of slots that the job declares while it is not ending."""
        return self.slot_table.wanted

    @property
    def slots(self) -> Mapping[SlotKey, Slot]:
        """The slots that the job holds."""
        return self.slot_table.held

    def holds(self, allocation_id: AllocationId) -> bool:
        """Whether the job holds the slot."""
        return self.slot_table.holds(allocation_id)

    @property
    def slot_supply(self) -> ev.SlotSupply | None:
        """The slots of the cluster, when they are fewer than the job needs."""
        return self.slot_table.supply

    # Life

    @property
    def requirements(self) -> Requirements:
        """The bounds of the parallelism of every vertex."""
        return self.left_over or self.bounds

    @property
    def is_suspended(self) -> bool:
        """Whether the job waits for `Resumed`."""
        return self.suspended

    @property
    def is_taking_over(self) -> bool:
        """Whether the job waits for task managers to report running tasks."""
        return self.takeover is not None

    @property
    def is_rescaling(self) -> bool:
        """Whether a rescale is in progress."""
        return self.rescale is not None

    @property
    def all_up(self) -> bool:
        """Whether all tasks run, or have finished."""
        return all(e.state in _UP for e in self.execution_graph.executions)

    def move_to(self, status: JobStatus, now: Instant) -> None:
        """Moves the job to another state; raises if the transition is not allowed."""
        check_job_transition(self.status, status)
        self.status = status
        self.state_times[status] = now.date_ms

    def show(self, message: str) -> list[ev.Effect]:
        """Sets the message, and reports it if it is a new one."""
        if self.message == message:
            return []
        self.message = message
        return [ev.ReportDetails()]

    # Events and failures

    @property
    def events(self) -> tuple[JobEvent, ...]:
        """The latest events of the job other than failures, oldest first."""
        return tuple(self._events)

    def remember(self, kind: JobEventKind, message: str, now: Instant) -> None:
        """Adds to the job's events."""
        self._events.append(JobEvent(now.date_ms, kind, message))

    def remember_again(self, kind: JobEventKind, message: str, now: Instant) -> None:
        """Replaces the last event of this kind by one that counts its repetitions."""
        for index in reversed(range(len(self._events))):
            if self._events[index].kind is kind:
                del self._events[index]
                break
        self.remember(kind, message, now)

    @property
    def history(self) -> ExceptionHistory:
        """The exception history."""
        return self.restarting.history

    @property
    def restarts(self) -> int:
        """The number of restarts so far."""
        return self.restarting.count

    @property
    def restarts_decided(self) -> int:
        """The number of restarts, including one that waits for its delay."""
        return self.restarting.decided

    @property
    def restart_strategy(self) -> RestartStrategy:
        """The restart strategy of the job."""
        return self.restarting.strategy

    @property
    def failures(self) -> tuple[TaskFailure, ...]:
        """The recorded root causes, newest first, each with its concurrent failures."""
        return tuple(cause.as_failure() for cause in reversed(self.history.entries))

    # Where things are

    def runs_again(self, execution: Execution) -> bool:
        """Whether the task is being cancelled in order to restart."""
        return self.restarting.cancels(execution)

    def is_leaving(self, execution: Execution) -> bool:
        """Whether the task is being cancelled or stopped."""
        return self.status in ENDING or self.restarting.cancels(execution)

    def place_of(self, vertex_id: VertexId, subtask: int) -> Place | None:
        """Returns where a subtask runs, or None."""
        return self.slot_table.place_of(self.execution_graph.at(vertex_id, subtask))

    def place_of_attempt(self, attempt_id: AttemptId) -> Place | None:
        """Returns where an attempt runs, or None if it no longer does."""
        return self.slot_table.place_of(self.execution_graph.by_attempt(attempt_id))

    def collector_of(self, operator_id: str) -> Place | None:
        """Returns where the collect sink with this operator id runs; it has one subtask."""
        for vertex in self.graph.vertices:
            if any(o.id == operator_id for o in vertex.operators):
                return self.place_of(vertex.id, 0)
        return None

    def whole_if_slots_miss(self, failed: Collection[Subtask]) -> Collection[Subtask]:
        """Returns all subtasks if slots are missing: a job that may continue in fewer slots restarts as a whole."""
        return self.all_subtasks if self.settings.adaptive is not None and not self.slot_table.complete else failed
