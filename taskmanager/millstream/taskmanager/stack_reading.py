"""Attributes a thread's stack to a task and an operator. Pure.

All tasks of a slot run on one thread. The current task and operator are read from the objects of the frames, by their
addresses, so a stack reads the same from inside the worker and from outside. When the loop waits, so do all of its
tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain

from millstream.core.inspection.frames import SeenFrame, frame_names
from millstream.core.messages.inspection import PlacedTask, SampledStack, SampleRequest

_OPERATORS = "millstream.taskmanager.worker.operators."
_LOOP = "millstream.taskmanager.worker.slot_worker"
WITH_OBJECTS = (_OPERATORS, _LOOP)
"""Modules whose frames are captured with their objects."""
_LOOP_FUNCTIONS = ("SlotWorker.turn", "SlotWorker.run")
_TASK_FUNCTION = "SlotWorker._in_task"
FOR_INPUT = "[waiting for input]"
FOR_OTHERS = "[waiting for downstream tasks: backpressured]"
FOR_SOURCES = "[waiting for other sources: watermark alignment]"
WAITING = "[waiting]"
_TASK = "[task]"
Seen = tuple[tuple[str, ...], bool, int]
"""Names of frames, whether it was on the CPU, and the subtask."""
Waits = Callable[[PlacedTask], str]
"""Returns one of the above for a task that waits: the reason of its last wait."""


class StackReader:
    """Reads stacks for one request."""

    def __init__(self, request: SampleRequest, waits: Waits, worker: int = 0) -> None:
        self._request = request
        self._waits = waits
        self._worker = worker  # its address, for a process that runs several workers

    def stacks(self, thread: str, stack: Sequence[SeenFrame], tasks: Collection[PlacedTask]) -> Iterator[Seen]:
        """What a thread's stack, the outermost frame first, shows of the requested tasks.

        The boolean is whether the thread may be on the CPU, by its clock.
        """
        request = self._request
        is_of_loop = self._is_of_loop(stack)
        address = next((frame.task for frame in stack if _is(frame, _LOOP, _TASK_FUNCTION)), 0) if is_of_loop else 0
        if not request.vertex_id:
            step = [(task.name, _operator_in(stack, task) or _TASK) for task in tasks if task.address == address]
            yield (thread, *chain.from_iterable(step), *self._names(stack)), True, 0
            return
        wanted = [t for t in tasks if t.vertex_id == request.vertex_id and request.subtask in (None, t.subtask)]
        if is_of_loop:
            if not address:
                for task in wanted:
                    head = task.operators[0].name if task.operators else WAITING
                    yield (head, self._waits(task)), False, task.subtask
            for task in wanted:
                if task.address == address:
                    yield (_operator_in(stack, task) or _TASK, *self._names(stack)), True, task.subtask
            return
        for task in wanted:
            for operator in task.operators:
                if thread in (operator.name, f"async {operator.name}"):
                    yield (operator.name, *self._names(stack)), True, task.subtask

    def _is_of_loop(self, stack: Sequence[SeenFrame]) -> bool:
        return any(_is(frame, _LOOP, *_LOOP_FUNCTIONS) and self._worker in (0, frame.owner) for frame in stack)

    def _names(self, stack: Sequence[SeenFrame]) -> tuple[str, ...]:
        return frame_names(stack, self._request.with_runtime, self._request.depth)


def _is(frame: SeenFrame, module: str, *functions: str) -> bool:
    return frame.function in functions and frame.module == module


def _operator_in(stack: Sequence[SeenFrame], task: PlacedTask) -> str:
    """The innermost operator in the stack: the code that it calls is its function, or leads to the next operator."""
    names = {operator.address: operator.name for operator in task.operators}
    found = (frame for frame in reversed(stack) if frame.owner in names and frame.module.startswith(_OPERATORS))
    return next((names[frame.owner] for frame in found), "")


def added_up(found: Counter[Seen]) -> tuple[SampledStack, ...]:
    """The samples, summed up, the most frequent first."""
    return tuple(SampledStack(names, on_cpu, count, subtask) for (names, on_cpu, subtask), count in found.most_common())
