"""What a task needs to run: its code, its channels, and where it restores from.

An exchange between 1,000 subtasks and 1,000 has a million channels: the garbage collector has nothing to do with them.
"""

from __future__ import annotations

from msgspec import Struct

from millstream.core.jobs.ids import AllocationId, AttemptId, ChannelId, JobId, VertexId


class InputChannel(Struct, frozen=True, gc=False):
    """From one subtask that produces."""

    channel_id: ChannelId
    producer_address: str
    producer_name: str
    producer_subtask: int


class OutputChannel(Struct, frozen=True, gc=False):
    """To one subtask that consumes."""

    channel_id: ChannelId
    consumer_address: str
    consumer_name: str


class InputGate(Struct, frozen=True):
    """All channels of one edge into the task."""

    input: int
    spec: bytes
    channels: tuple[InputChannel, ...]
    edge: str = ""
    """Its name in metrics, the same at both ends (`millstream.core.jobs.graph.edge_name`)."""


class ResultPartition(Struct, frozen=True):
    """All channels of one edge out of the task."""

    output: int
    spec: bytes
    channels: tuple[OutputChannel, ...]
    max_parallelism: int
    """Of the consumer; the spec's is only what the program wanted."""
    edge: str = ""
    """As of the gate that it leads to."""


class TaskDeployment(Struct, frozen=True):
    """One attempt of one subtask."""

    attempt_id: AttemptId
    job_id: JobId
    vertex_id: VertexId
    task_name: str
    subtask: int
    parallelism: int
    max_parallelism: int
    attempt: int
    chain: bytes
    inputs: tuple[InputGate, ...] = ()
    outputs: tuple[ResultPartition, ...] = ()
    job_name: str = ""
    restore: bytes = b""
    """JSON: the operators' states that this subtask restores from, only its own files."""
    restore_location: str = ""
    """The folder of the snapshot that those files lie in."""
    restored_checkpoint_id: int = 0
    failed_savepoints: tuple[int, ...] = ()
    """Whose transactions no snapshot holds: leftovers of dead attempts."""


class DeployTasks(Struct, frozen=True):
    """Has tasks run in a slot."""

    allocation_id: AllocationId
    tasks: tuple[TaskDeployment, ...]


class CancelTasks(Struct, frozen=True):
    """Has attempts cancelled."""

    allocation_id: AllocationId
    attempt_ids: tuple[AttemptId, ...]
