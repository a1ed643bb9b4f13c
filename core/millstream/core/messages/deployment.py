"""The deployment of tasks: their code, their channels, and the states that they restore.

An exchange between 1,000 subtasks and 1,000 has a million channels, which the garbage collector does not track.
"""

from __future__ import annotations

from msgspec import Struct

from millstream.core.jobs.graph import Exchange
from millstream.core.jobs.ids import AllocationId, AttemptId, ChannelId, JobId, VertexId


class InputChannel(Struct, frozen=True, gc=False):
    """A channel from one producing subtask."""

    channel_id: ChannelId
    producer_address: str
    producer_name: str
    producer_subtask: int


class OutputChannel(Struct, frozen=True, gc=False):
    """A channel to one consuming subtask."""

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
    exchange: Exchange = Exchange.PIPELINED


class ResultPartition(Struct, frozen=True):
    """All channels of one edge out of the task."""

    output: int
    spec: bytes
    channels: tuple[OutputChannel, ...]
    max_parallelism: int
    """The max parallelism of the consumer; that of the spec is only what the program requested."""
    edge: str = ""
    """The same name as that of the gate that it leads to."""
    exchange: Exchange = Exchange.PIPELINED


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
    """JSON: the operators' states that this subtask restores, with only its own files."""
    restore_location: str = ""
    """The folder of the snapshot that contains these files."""
    restored_checkpoint_id: int = 0
    failed_savepoints: tuple[int, ...] = ()
    """Failed savepoints, whose transactions no snapshot includes."""


class DeployTasks(Struct, frozen=True):
    """Deploys tasks in a slot."""

    allocation_id: AllocationId
    tasks: tuple[TaskDeployment, ...]


class CancelTasks(Struct, frozen=True):
    """Cancels attempts."""

    allocation_id: AllocationId
    attempt_ids: tuple[AttemptId, ...]
