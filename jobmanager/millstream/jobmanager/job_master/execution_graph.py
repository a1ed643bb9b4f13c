"""The execution graph: the current attempt of every subtask of every vertex, with its slot and state.

Pure data with checked transitions; `millstream.jobmanager.job_master.job_master` makes the decisions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping

from msgspec import Struct, field

from millstream.core.jobs.details import Accumulator, SubtaskStatus, TaskMetrics
from millstream.core.jobs.earlier_attempts import AttemptHistory, EarlierAttempt
from millstream.core.jobs.graph import Exchange, JobGraph, JobVertex, edge_name
from millstream.core.jobs.ids import AllocationId, AttemptId, ChannelId, TaskManagerId, VertexId, new_id
from millstream.core.jobs.progress import TaskProgress
from millstream.core.jobs.states import ExecutionState, check_task_transition
from millstream.core.jobs.wiring import consumers_of
from millstream.core.messages.deployment import (
    InputChannel,
    InputGate,
    OutputChannel,
    ResultPartition,
    TaskDeployment,
)
from millstream.core.messages.takeover import FoundTask
from millstream.core.messages.task_manager import AttemptMetrics
from millstream.jobmanager.failover.topology import Subtask


class SlotKey(Struct, frozen=True):
    """A slice of the job: the i-th subtasks of all vertices of one slot sharing group."""

    group: str
    index: int


class Slot(Struct):
    """A slot that the job holds."""

    allocation_id: AllocationId
    task_manager: TaskManagerId
    host: str
    data_address: str = ""
    worker_started: bool = False

    def worker_gone(self) -> None:
        """Removes its worker, which has ended; the slot stays."""
        self.data_address, self.worker_started = "", False


class TaskRestore(Struct, frozen=True):
    """What a subtask restores from: JSON of its operators' states, and the folder of the snapshot.

    `failed_savepoints` left transactions that no snapshot includes.
    """

    states: bytes = b""
    location: str = ""
    checkpoint_id: int = 0
    failed_savepoints: tuple[int, ...] = ()


class TimeShares(Struct, frozen=True):
    """The fractions of a task's time between its last two reports, in percent."""

    busy: int = 0
    backpressured: int = 0

    @staticmethod
    def between(earlier: TaskMetrics, later: TaskMetrics) -> TimeShares:
        """Computes the fractions between two reports."""
        busy = later.busy_ms - earlier.busy_ms
        backpressured = later.backpressured_ms - earlier.backpressured_ms
        others = later.idle_ms - earlier.idle_ms + later.paused_ms - earlier.paused_ms
        whole = busy + backpressured + others
        return TimeShares(100 * busy // whole, 100 * backpressured // whole) if whole > 0 else TimeShares()


DEPLOYED = frozenset(
    {ExecutionState.DEPLOYING, ExecutionState.INITIALIZING, ExecutionState.RUNNING, ExecutionState.CANCELING}
)


class Execution(Struct):
    """One attempt of one subtask."""

    vertex: JobVertex
    subtask: int
    attempt_id: AttemptId
    attempt: int = 0
    state: ExecutionState = ExecutionState.CREATED
    state_times: dict[str, int] = field(default_factory=dict)
    metrics: TaskMetrics = field(default_factory=TaskMetrics)
    progress: TaskProgress = field(default_factory=TaskProgress)
    time_shares: TimeShares = field(default_factory=TimeShares)
    emitted_at: int = 0  # when it was last seen to have emitted records, in milliseconds; before that, its first report
    reported_at: int = 0  # when its last report was received, in milliseconds
    accumulators: tuple[Accumulator, ...] = ()
    task_manager: str = ""  # where it was deployed; kept after the slot is released
    host: str = ""

    @property
    def name(self) -> str:
        """The name, as in `map (1/4)`."""
        return f"{self.vertex.name} ({self.subtask + 1}/{self.vertex.parallelism})"

    @property
    def slot_key(self) -> SlotKey:
        """The slice that it belongs to."""
        return SlotKey(self.vertex.slot_sharing_group, self.subtask)

    @property
    def place(self) -> Subtask:
        """The subtask, independent of the attempt."""
        return Subtask(self.vertex.id, self.subtask)

    @property
    def is_deployed(self) -> bool:
        """Whether it is, or may be, deployed on a worker."""
        return self.state in DEPLOYED

    @property
    def status(self) -> SubtaskStatus:
        """The status that is reported to the dispatcher."""
        times, is_running = self.state_times, self.state is ExecutionState.RUNNING
        return SubtaskStatus(
            index=self.subtask,
            state=self.state,
            attempt=self.attempt,
            task_manager=self.task_manager,
            host=self.host,
            start_time=times.get(ExecutionState.DEPLOYING, 0),
            end_time=times[self.state] if self.state.is_terminal else 0,
            state_times=dict(times),
            metrics=self.metrics,
            busy_percent=self.time_shares.busy if is_running else 0,
            backpressured_percent=self.time_shares.backpressured if is_running else 0,
        )

    def reported(self, report: AttemptMetrics, now_ms: int) -> None:
        """Updates the attempt's metrics from a report of its worker."""
        if not self.emitted_at or report.metrics.records_out != self.metrics.records_out:
            self.emitted_at = now_ms
        self.reported_at = now_ms
        self.time_shares = TimeShares.between(self.metrics, report.metrics)
        self.metrics, self.progress = report.metrics, report.progress

    def move_to(self, state: ExecutionState, now_ms: int) -> None:
        """Changes the state; the transition is checked."""
        check_task_transition(self.state, state)
        self.state = state
        self.state_times[state] = now_ms


LatestAttempt = Callable[[VertexId, int], int]
"""The number of a subtask's latest attempt, under an earlier leader of the job."""


class ExecutionGraph:
    """The current execution of every subtask of a job."""

    def __init__(self, graph: JobGraph, now_ms: int, latest: LatestAttempt = lambda _vertex, _subtask: 0) -> None:
        self._channels = 0
        self.earlier = AttemptHistory()
        """The earlier attempts of subtasks. To keep others, it is replaced before the first attempt ends."""
        self._fill(graph, latest, now_ms)

    def _fill(self, graph: JobGraph, latest: LatestAttempt, now_ms: int) -> None:
        self.graph = graph
        self.executions: list[Execution] = [
            Execution(
                vertex,
                subtask,
                AttemptId(new_id()),
                latest(vertex.id, subtask),
                state_times={ExecutionState.CREATED: now_ms},
            )
            for vertex in graph.vertices
            for subtask in range(vertex.parallelism)
        ]
        self._by_attempt = {e.attempt_id: e for e in self.executions}
        self._by_place = {e.place: e for e in self.executions}
        self._kept_channels: dict[AttemptId, dict[str, list[ChannelId]]] = {}
        """The channels of the blocking edges of each producer, by edge: consumers read them when it has ended."""
        self._slices: dict[SlotKey, list[Subtask]] = {}
        for execution in self.executions:
            self._slices.setdefault(execution.slot_key, []).append(execution.place)

    def fit(self, graph: JobGraph) -> None:
        """Replaces the job graph before anything is deployed, by one that fits the snapshot it starts from."""
        self.graph = graph
        vertices = {vertex.id: vertex for vertex in graph.vertices}
        for execution in self.executions:
            execution.vertex = vertices[execution.vertex.id]

    def by_attempt(self, attempt_id: AttemptId) -> Execution | None:
        """Returns the execution of this attempt, or None when it is not a current one."""
        return self._by_attempt.get(attempt_id)

    def at(self, vertex_id: str, subtask: int) -> Execution | None:
        """Returns the current execution of a subtask."""
        return self._by_place.get(Subtask(VertexId(vertex_id), subtask))

    def of(self, subtasks: Collection[Subtask]) -> list[Execution]:
        """Returns the current executions of these subtasks, producers first."""
        return [e for e in self.executions if e.place in subtasks]

    def try_again(self, subtasks: Collection[Subtask], now_ms: int) -> None:
        """Replaces the attempts of these subtasks, which have all ended, by new scheduled ones."""
        for index, old in enumerate(self.executions):
            if old.place not in subtasks:
                continue
            assert old.state.is_terminal, f"{old.name} is {old.state}"
            self.earlier.add(EarlierAttempt.of(old.vertex.id, old.status))
            new = Execution(old.vertex, old.subtask, AttemptId(new_id()), old.attempt + 1)
            new.state_times[ExecutionState.CREATED] = now_ms
            new.move_to(ExecutionState.SCHEDULED, now_ms)
            self.executions[index] = self._by_place[new.place] = self._by_attempt[new.attempt_id] = new
            del self._by_attempt[old.attempt_id]
            self._kept_channels.pop(old.attempt_id, None)

    def take_over(self, found: FoundTask, slot: Slot, now_ms: int) -> None:
        """Replaces a scheduled attempt by the one that an earlier leader of the job has deployed."""
        execution = self._by_place[Subtask(found.vertex_id, found.subtask)]
        del self._by_attempt[execution.attempt_id]
        execution.attempt_id = found.attempt_id
        self._by_attempt[found.attempt_id] = execution
        for state in (ExecutionState.SCHEDULED, ExecutionState.DEPLOYING, found.state):
            execution.move_to(state, now_ms)
        execution.task_manager, execution.host = slot.task_manager, slot.host
        execution.accumulators, execution.metrics = found.accumulators, found.metrics or TaskMetrics()
        self._channels = max(self._channels, found.highest_channel)

    def finished(self) -> frozenset[Subtask]:
        """Returns the subtasks whose current attempt has finished."""
        return frozenset(e.place for e in self.executions if e.state is ExecutionState.FINISHED)

    def attempts(self) -> dict[str, tuple[int, ...]]:
        """Returns the numbers of all current attempts, by vertex and subtask."""
        by_vertex: dict[str, list[int]] = {}
        for execution in self.executions:
            by_vertex.setdefault(execution.vertex.id, []).append(execution.attempt)
        return {vertex: tuple(numbers) for vertex, numbers in by_vertex.items() if any(numbers)}

    def rescale(self, graph: JobGraph, now_ms: int) -> None:
        """Replaces the graph by the job at another parallelism, with new scheduled attempts; nothing is deployed."""
        attempt = max(e.attempt + (ExecutionState.DEPLOYING in e.state_times) for e in self.executions)
        for old in self.executions:
            if ExecutionState.DEPLOYING in old.state_times:
                self.earlier.add(EarlierAttempt.of(old.vertex.id, old.status))
        self._fill(graph, lambda _vertex, _subtask: attempt, now_ms)
        for execution in self.executions:
            execution.move_to(ExecutionState.SCHEDULED, now_ms)

    def slot_keys(self) -> list[SlotKey]:
        """Returns all slices, one for each slot that the job needs."""
        return list(self._slices)

    def in_slice(self, key: SlotKey) -> list[Execution]:
        """Returns the executions of one slice, producers first."""
        return [self._by_place[place] for place in self._slices.get(key, ())]

    def deployments(
        self,
        slots: Mapping[SlotKey, Slot],
        subtasks: Collection[Subtask] | None = None,
        restores: Mapping[Subtask, TaskRestore] | None = None,
    ) -> dict[SlotKey, list[TaskDeployment]]:
        """Returns the deployment of each slot: every channel has a unique id and the addresses of both ends.

        With `subtasks`, only those; they are whole pipelined regions, so only blocking channels lead out of them. A
        blocking channel keeps its id until its producer is deployed again.
        """
        chosen = self.executions if subtasks is None else self.of(subtasks)
        inputs: dict[AttemptId, list[InputGate]] = {e.attempt_id: [] for e in chosen}
        outputs: dict[AttemptId, list[ResultPartition]] = {e.attempt_id: [] for e in chosen}
        addresses = {key: slot.data_address for key, slot in slots.items()}
        numbers: Counter[VertexId] = Counter()
        for edge in self.graph.edges:
            name_of_edge = edge_name(edge.target, numbers[edge.target])
            numbers[edge.target] += 1
            producers = [e for e in self.executions if e.vertex.id == edge.source]
            consumers = [e for e in self.executions if e.vertex.id == edge.target]
            ends = [(addresses[e.slot_key], e.name) for e in consumers]  # once, not for each of very many channels
            into: list[list[InputChannel]] = [[] for _ in consumers]
            for producer in producers:
                is_deployed = producer.attempt_id in outputs
                kept = self._kept_channels.get(producer.attempt_id, {}).get(name_of_edge, ())
                if not is_deployed and not kept:
                    continue
                address, name, out_of = addresses[producer.slot_key], producer.name, []
                indexes = consumers_of(edge.strategy, producer.subtask, len(producers), len(consumers))
                for index, channel in zip(indexes, kept or self._new_channels(len(indexes)), strict=True):
                    out_of.append(OutputChannel(channel, *ends[index]))
                    into[index].append(InputChannel(channel, address, name, producer.subtask))
                if not is_deployed:
                    continue
                if edge.exchange is Exchange.BLOCKING:
                    ids = [channel.channel_id for channel in out_of]
                    self._kept_channels.setdefault(producer.attempt_id, {})[name_of_edge] = ids
                limit = consumers[0].vertex.max_parallelism
                partition = ResultPartition(edge.output, edge.spec, tuple(out_of), limit, name_of_edge, edge.exchange)
                outputs[producer.attempt_id].append(partition)
            for consumer, channels in zip(consumers, into, strict=True):
                if consumer.attempt_id in inputs:
                    gate = InputGate(edge.input, edge.spec, tuple(channels), name_of_edge, edge.exchange)
                    inputs[consumer.attempt_id].append(gate)
        tasks = {
            e.attempt_id: self._deployment(
                e, (restores or {}).get(e.place, TaskRestore()), inputs[e.attempt_id], outputs[e.attempt_id]
            )
            for e in chosen
        }
        in_slots = {key: [e.attempt_id for e in self.in_slice(key) if e.attempt_id in tasks] for key in slots}
        return {key: [tasks[attempt] for attempt in attempts] for key, attempts in in_slots.items() if attempts}

    def _new_channels(self, count: int) -> list[ChannelId]:
        first = self._channels + 1
        self._channels += count
        return [ChannelId(number) for number in range(first, first + count)]

    def _deployment(
        self, execution: Execution, restore: TaskRestore, inputs: list[InputGate], outputs: list[ResultPartition]
    ) -> TaskDeployment:
        vertex = execution.vertex
        return TaskDeployment(
            attempt_id=execution.attempt_id,
            job_id=self.graph.job_id,
            job_name=self.graph.name,
            vertex_id=vertex.id,
            task_name=execution.name,
            subtask=execution.subtask,
            parallelism=vertex.parallelism,
            max_parallelism=vertex.max_parallelism,
            attempt=execution.attempt,
            chain=vertex.chain,
            inputs=tuple(inputs),
            outputs=tuple(sorted(outputs, key=lambda output: output.output)),
            restore=restore.states,
            restore_location=restore.location,
            restored_checkpoint_id=restore.checkpoint_id,
            failed_savepoints=restore.failed_savepoints,
        )
