"""The execution graph: every subtask of every vertex, where it runs, and how far it has come.

Pure data with checked transitions; `millstream.jobmanager.job_master` decides what happens to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from millstream.core.graph import JobGraph, JobVertex
from millstream.core.ids import AllocationId, AttemptId, TaskManagerId, VertexId, new_id
from millstream.core.states import ExecutionState, check_task_transition
from millstream.core.wiring import consumers_of
from millstream.proto import status_pb2
from millstream.proto import taskmanager_pb2 as pb


@dataclass(frozen=True, slots=True)
class SlotKey:
    """A slice of the job: the i-th subtasks of all vertices of one slot sharing group."""

    group: str
    index: int


@dataclass(slots=True)
class Slot:
    """A slot that the job holds."""

    allocation_id: AllocationId
    task_manager: TaskManagerId
    host: str
    data_address: str = ""


@dataclass(slots=True)
class Execution:
    """One attempt of one subtask."""

    vertex: JobVertex
    subtask: int
    attempt_id: AttemptId
    attempt: int = 0
    state: ExecutionState = ExecutionState.CREATED
    state_times: dict[str, int] = field(default_factory=dict)
    metrics: status_pb2.TaskMetrics = field(default_factory=status_pb2.TaskMetrics)
    accumulators: list[status_pb2.Accumulator] = field(default_factory=list)
    task_manager: str = ""  # where it was deployed; kept after the slot was given back
    host: str = ""

    @property
    def name(self) -> str:
        """As in `map (1/4)`."""
        return f"{self.vertex.name} ({self.subtask + 1}/{self.vertex.parallelism})"

    @property
    def slot_key(self) -> SlotKey:
        """The slice that it belongs to."""
        return SlotKey(self.vertex.slot_sharing_group, self.subtask)

    def move_to(self, state: ExecutionState, now_ms: int) -> None:
        """A checked step."""
        check_task_transition(self.state, state)
        self.state = state
        self.state_times[state] = now_ms


class ExecutionGraph:
    """All executions of a job."""

    def __init__(self, graph: JobGraph, now_ms: int) -> None:
        self.graph = graph
        self.executions: list[Execution] = [
            Execution(vertex, subtask, AttemptId(new_id()), state_times={ExecutionState.CREATED: now_ms})
            for vertex in graph.vertices
            for subtask in range(vertex.parallelism)
        ]
        self._by_attempt = {e.attempt_id: e for e in self.executions}
        self._by_place = {(e.vertex.id, e.subtask): e for e in self.executions}

    def by_attempt(self, attempt_id: str) -> Execution | None:
        """The execution of this attempt, or None when it is not a current one."""
        return self._by_attempt.get(AttemptId(attempt_id))

    def at(self, vertex_id: str, subtask: int) -> Execution | None:
        """The current execution of a subtask."""
        return self._by_place.get((VertexId(vertex_id), subtask))

    def slot_keys(self) -> list[SlotKey]:
        """All slices, one for each slot that the job needs."""
        return list(dict.fromkeys(e.slot_key for e in self.executions))

    def in_slice(self, key: SlotKey) -> list[Execution]:
        """The executions of one slice, producers first."""
        return [e for e in self.executions if e.slot_key == key]

    def deployments(self, slots: dict[SlotKey, Slot]) -> dict[SlotKey, list[pb.TaskDeployment]]:
        """What each slot is told to run: every channel has an id and two ends with known addresses."""
        tasks = {e.attempt_id: self._deployment(e) for e in self.executions}
        channel = 0
        for edge in self.graph.edges:
            producers = [e for e in self.executions if e.vertex.id == edge.source]
            consumers = [e for e in self.executions if e.vertex.id == edge.target]
            gates = [pb.InputGate(input=edge.input, spec=edge.spec) for _ in consumers]
            for producer in producers:
                partition = pb.ResultPartition(output=edge.output, spec=edge.spec)
                for index in consumers_of(edge.strategy, producer.subtask, len(producers), len(consumers)):
                    channel += 1
                    consumer = consumers[index]
                    partition.channels.add(
                        channel_id=channel,
                        consumer_address=slots[consumer.slot_key].data_address,
                        consumer_name=consumer.name,
                    )
                    gates[index].channels.add(
                        channel_id=channel,
                        producer_address=slots[producer.slot_key].data_address,
                        producer_name=producer.name,
                    )
                tasks[producer.attempt_id].outputs.append(partition)
            for consumer, gate in zip(consumers, gates, strict=True):
                tasks[consumer.attempt_id].inputs.append(gate)
        for task in tasks.values():
            task.outputs.sort(key=lambda output: output.output)
        return {key: [tasks[e.attempt_id] for e in self.in_slice(key)] for key in slots}

    def _deployment(self, execution: Execution) -> pb.TaskDeployment:
        vertex = execution.vertex
        return pb.TaskDeployment(
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
        )
