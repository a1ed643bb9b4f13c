"""Where the time of a slot worker goes: its threads, sampled by another one while somebody asks, and by nobody else.

All tasks of a slot run on one thread. Whose step it is in, and in which operator, is read from the frames of the stack
itself. A thread is on the CPU when it took processor time in the moment after it was looked at: that it was seen in
some function says nothing, for whoever waits is in one, too. When the loop waits, so do all of its tasks, each for what
its last step found.

Runs on a thread of its own for each request; while native code keeps the interpreter's lock, it stands still.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from millstream.core.inspection.cpu_clocks import cpu_seconds, scheduler_state
from millstream.core.inspection.frames import SeenFrame, told
from millstream.core.inspection.threads import Stack, current_stacks
from millstream.core.messages.inspection import SampledStack, SampleRequest
from millstream.taskmanager.worker.operators.base import Operator
from millstream.taskmanager.worker.tasks.task import Task
from millstream.taskmanager.worker.tasks.task_pacing import StepResult

if TYPE_CHECKING:
    from millstream.taskmanager.worker.slot_worker import SlotWorker

_LOOK = 0.0002  # seconds in which a thread has to take processor time to count as running: shorter than most waits
_SHARE = 0.5  # of them, so that one which was woken meanwhile does not
_OPERATORS = "millstream.taskmanager.worker.operators."
_WAITING = {
    StepResult.IDLE: "[waiting for input]",
    StepResult.BACKPRESSURED: "[waiting for those behind it: backpressured]",
    StepResult.PAUSED: "[waiting for other sources: watermark alignment]",
}
_IDLE = "[waiting]"
Seen = tuple[tuple[str, ...], bool, int]
"""Names of frames, whether it was on the CPU, and the subtask."""


class StackSampler:
    """Samples one worker for one request."""

    def __init__(self, worker: SlotWorker, request: SampleRequest) -> None:
        self._worker = worker
        self._request = request
        self._loop_codes = {type(worker).turn.__code__, type(worker).run.__code__}
        self._task_code = type(worker)._in_task.__code__  # noqa: SLF001  # its frames say whose step it is
        self._found: Counter[Seen] = Counter()

    def run(self) -> tuple[SampledStack, ...]:
        """Takes all samples; lasts as long as they are apart."""
        interval = self._request.interval_ms / 1000
        due = time.monotonic()
        for _ in range(self._request.samples):
            self._sample()
            due = max(due + interval, time.monotonic())
            time.sleep(max(due - time.monotonic(), 0.0))
        found = self._found.most_common()
        return tuple(SampledStack(frames, on_cpu, count, subtask) for (frames, on_cpu, subtask), count in found)

    def _sample(self) -> None:
        stacks = current_stacks()
        stacks.pop(threading.get_ident(), None)
        tasks = self._worker.running_tasks()
        seen = [(ident, list(self._stacks_of(ident, stack, tasks))) for ident, stack in stacks.items()]
        stacks.clear()  # whoever owns them is to be rid of them
        busy = _taking_time([ident for ident, found in seen if found])
        for ident, found in seen:
            for frames, may_be_on, subtask in found:
                self._found[frames, may_be_on and ident in busy, subtask] += 1

    def _stacks_of(self, ident: int, stack: Stack, tasks: Sequence[Task]) -> Iterator[Seen]:
        """What a thread's stack says of what was asked about; whether it may be on the CPU, which its clock says."""
        if not self._request.vertex_id:
            yield (_thread_name(ident), *self._names(stack)), True, 0
            return
        wanted = [task for task in tasks if self._is_wanted(task)]
        if self._is_of_loop(stack):
            task = self._task_in(stack)
            if task is None:
                for waiting in wanted:
                    why = _WAITING.get(waiting.steps.last_result, _IDLE)
                    yield (waiting.chain.head.name if waiting.chain.operators else _IDLE, why), False, _index(waiting)
            elif any(task is one for one in wanted):
                yield (_operator_in(stack) or "[task]", *self._names(stack)), True, _index(task)
            return
        name = _thread_name(ident)
        for task in wanted:
            for operator in task.chain.operators:
                if name in (operator.name, f"async {operator.name}"):
                    yield (operator.name, *self._names(stack)), True, _index(task)

    def _is_wanted(self, task: Task) -> bool:
        deployment, subtask = task.deployment, self._request.subtask
        return deployment.vertex_id == self._request.vertex_id and subtask in (None, deployment.subtask)

    def _is_of_loop(self, stack: Stack) -> bool:
        return any(
            frame.f_code in self._loop_codes and frame.f_locals.get("self") is self._worker
            for frame, _ in reversed(stack)
        )

    def _task_in(self, stack: Stack) -> Task | None:
        for frame, _ in reversed(stack):
            if frame.f_code is self._task_code:
                found = frame.f_locals.get("task")
                return found if isinstance(found, Task) else None
        return None

    def _names(self, stack: Stack) -> tuple[str, ...]:
        frames = [SeenFrame.of(frame, line) for frame, line in reversed(stack)]
        return told(frames, self._request.with_runtime, self._request.depth)


def _operator_in(stack: Stack) -> str:
    """The innermost operator that the stack is in: what it calls is its function, or the way to the next."""
    for frame, _ in stack:
        if str(frame.f_globals.get("__name__", "")).startswith(_OPERATORS):
            owner: Any = frame.f_locals.get("self")
            if isinstance(owner, Operator):
                return owner.name
    return ""


def _index(task: Task) -> int:
    return task.deployment.subtask


def _thread_name(ident: int) -> str:
    return next((thread.name for thread in threading.enumerate() if thread.ident == ident), f"thread {ident}")


def _taking_time(idents: Sequence[int]) -> set[int]:
    """Those that take processor time now, or would if there were a processor for them."""
    natives = {thread.ident: thread.native_id for thread in threading.enumerate() if thread.ident in idents}
    before = {ident: cpu_seconds(native) for ident, native in natives.items() if native is not None}
    began = time.perf_counter()
    time.sleep(_LOOK)
    needed = _SHARE * (time.perf_counter() - began)
    busy: set[int] = set()
    for ident, earlier in before.items():
        native = natives[ident] or 0
        later = cpu_seconds(native)
        if ident is not None and earlier is not None and later is not None:
            if later - earlier > needed or scheduler_state(native) == "R":
                busy.add(ident)
        elif ident is not None:
            busy.add(ident)  # nobody can tell: what is seen counts as work, as it does elsewhere
    return busy
