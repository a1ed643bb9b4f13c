"""The requests that inspect the processes of a cluster, and their responses."""

from __future__ import annotations

from msgspec import Struct

from millstream.core.jobs.ids import AllocationId, AttemptId


class ThreadStack(Struct, frozen=True):
    """Where a thread is, or an asyncio task waits; as text for people."""

    name: str
    stack: str


class ProcessThreads(Struct, frozen=True):
    """The threads of one process."""

    name: str = ""
    """For people; empty: the service that was called."""
    pid: int = 0
    threads: tuple[ThreadStack, ...] = ()
    problem: str = ""
    """Why there are none, or why they were only seen from outside."""


class ThreadDump(Struct, frozen=True):
    """Those of a service, and of the slot workers of a task manager."""

    processes: tuple[ProcessThreads, ...] = ()


class SampleRequest(Struct, frozen=True):
    """Requests where the workers of a job spend their time."""

    job_id: str
    vertex_id: str = ""
    """Empty: everything that the workers of the job do."""
    subtask: int | None = None
    """None: all that run there."""
    samples: int = 1
    interval_ms: int = 1
    with_runtime: bool = False
    """Frames of the runtime are not left out."""
    depth: int = 100
    """At most so many frames of a stack are kept, the innermost."""
    slot: int | None = None
    """None: all slots of the job."""


class SampledStack(Struct, frozen=True):
    """A stack, the outermost frame first, and how often it was seen."""

    frames: tuple[str, ...]
    on_cpu: bool
    count: int
    subtask: int = 0


class StackSamples(Struct, frozen=True):
    """What was seen, and which slot workers could not be sampled, for people."""

    stacks: tuple[SampledStack, ...] = ()
    problems: tuple[str, ...] = ()
    samplers: tuple[str, ...] = ()
    """What looked: `py-spy`, `worker`, or both of them for different workers."""


class PlacedOperator(Struct, frozen=True):
    """An operator of a task, by the address of its object."""

    address: int
    name: str


class PlacedTask(Struct, frozen=True):
    """From a slot worker: where a task and its operators are in memory, so that stacks can be attributed.

    Sent before the task is opened: once it hangs in code of the user's, it cannot respond.
    """

    allocation_id: AllocationId
    attempt_id: AttemptId
    vertex_id: str
    subtask: int
    address: int
    name: str = ""
    operators: tuple[PlacedOperator, ...] = ()
    search_path: tuple[str, ...] = ()
    """Where the worker imports modules from."""


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
