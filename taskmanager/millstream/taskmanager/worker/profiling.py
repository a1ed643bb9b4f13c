"""Samples the threads of a slot worker to find where its time is spent, only on request.

A thread counts as on-CPU if it consumed processor time right after the sample: the sampled function alone does not show
it, since a waiting thread is in a function too.

Each request runs on a thread of its own; it pauses while native code holds the interpreter lock.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

from millstream.core.inspection.frames import SeenFrame
from millstream.core.inspection.running_threads import taking_time, thread_name
from millstream.core.inspection.threads import current_stacks
from millstream.core.messages.inspection import PlacedTask, SampledStack, SampleRequest
from millstream.taskmanager.stack_reading import (
    FOR_INPUT,
    FOR_OTHERS,
    FOR_SOURCES,
    WAITING,
    WITH_OBJECTS,
    Seen,
    StackReader,
    added_up,
)
from millstream.taskmanager.worker.tasks.task_pacing import StepResult

if TYPE_CHECKING:
    from millstream.taskmanager.worker.slot_worker import SlotWorker

_WAITS = {StepResult.IDLE: FOR_INPUT, StepResult.BACKPRESSURED: FOR_OTHERS, StepResult.PAUSED: FOR_SOURCES}


class StackSampler:
    """Samples one worker for one request."""

    def __init__(self, worker: SlotWorker, request: SampleRequest) -> None:
        self._worker = worker
        self._request = request
        self._waits: dict[str, str] = {}
        self._reader = StackReader(request, self._waits_for, id(worker))
        self._found: Counter[Seen] = Counter()

    def run(self) -> tuple[SampledStack, ...]:
        """Takes all samples; returns after their number times the interval."""
        interval = self._request.interval_ms / 1000
        due = time.monotonic()
        for _ in range(self._request.samples):
            self._sample()
            due = max(due + interval, time.monotonic())
            time.sleep(max(due - time.monotonic(), 0.0))
        return added_up(self._found)

    def _sample(self) -> None:
        stacks = current_stacks()
        stacks.pop(threading.get_ident(), None)
        running = self._worker.running_tasks()
        self._waits = {task.attempt_id: _WAITS.get(task.steps.last_result, WAITING) for task in running}
        tasks = [self._worker.placed(task) for task in running]
        seen: list[tuple[int, list[Seen]]] = []
        for ident, stack in stacks.items():
            frames = [SeenFrame.of(frame, line, WITH_OBJECTS) for frame, line in reversed(stack)]
            seen.append((ident, list(self._reader.stacks(thread_name(ident), frames, tasks))))
        stacks.clear()  # releases the objects of the frames
        busy = taking_time([ident for ident, found in seen if found])
        for ident, found in seen:
            for names, may_be_on, subtask in found:
                self._found[names, may_be_on and ident in busy, subtask] += 1

    def _waits_for(self, task: PlacedTask) -> str:
        return self._waits[task.attempt_id]
