"""The requests that inspect the processes of a cluster, and their responses."""

from __future__ import annotations

from msgspec import Struct

from millstream.core.jobs.ids import AllocationId, AttemptId


class ThreadStack(Struct, frozen=True):
    """The stack of a thread or of an asyncio task, as text."""

    name: str
    stack: str


class ProcessThreads(Struct, frozen=True):
    """The threads of one process."""

    name: str = ""
    """The name of the process; empty: the service that was called."""
    pid: int = 0
    threads: tuple[ThreadStack, ...] = ()
    problem: str = ""
    """Why there are none, or why they were only sampled from outside."""


class ThreadDump(Struct, frozen=True):
    """The threads of a service, and of the slot workers of a task manager."""

    processes: tuple[ProcessThreads, ...] = ()


class SampleRequest(Struct, frozen=True):
    """Requests samples of the stacks of a job's workers."""

    job_id: str
    vertex_id: str = ""
    """The vertex; empty: everything that the workers of the job do."""
    subtask: int | None = None
    """The subtask; None: all that run there."""
    samples: int = 1
    interval_ms: int = 1
    with_runtime: bool = False
    """Whether frames of the runtime are included."""
    depth: int = 100
    """The maximum number of innermost frames that are kept."""
    slot: int | None = None
    """None: all slots of the job."""


class SampledStack(Struct, frozen=True):
    """A stack, the outermost frame first, and the number of its samples."""

    frames: tuple[str, ...]
    on_cpu: bool
    count: int
    subtask: int = 0


class StackSamples(Struct, frozen=True):
    """The samples, and messages about slot workers that could not be sampled."""

    stacks: tuple[SampledStack, ...] = ()
    problems: tuple[str, ...] = ()
    samplers: tuple[str, ...] = ()
    """The samplers: `py-spy`, `worker`, or both for different workers."""


class PlacedOperator(Struct, frozen=True):
    """An operator of a task, by the address of its object."""

    address: int
    name: str


class PlacedTask(Struct, frozen=True):
    """From a slot worker: the addresses of a task and its operators in memory, so that stacks can be attributed.

    Sent before the task is opened, since a task that hangs in user code cannot respond.
    """

    allocation_id: AllocationId
    attempt_id: AttemptId
    vertex_id: str
    subtask: int
    address: int
    name: str = ""
    operators: tuple[PlacedOperator, ...] = ()
    search_path: tuple[str, ...] = ()
    """The import path of the worker."""


class InspectWorker(Struct, frozen=True):
    """To a slot worker: sample, or dump the threads."""

    request_id: str
    sample: SampleRequest | None = None


class WorkerInspected(Struct, frozen=True):
    """Its response."""

    request_id: str
    threads: tuple[ThreadStack, ...] = ()
    stacks: tuple[SampledStack, ...] = ()
    problem: str = ""
