"""Traces an operator that waits for event time back to the stream whose watermark holds it back.

Pure. Channels are identified by the names of the tasks that send on them. A watermark that its producer has emitted and
that has not arrived is queued behind records in flight: that is backpressure, and no stream holds it back.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from millstream.core.jobs.ids import VertexId
from millstream.core.jobs.progress import EventTime, KeptRecords, StreamTime, TimedWork, WatermarkOrigin
from millstream.core.jobs.states import ExecutionState
from millstream.core.records.batches import MIN_TIMESTAMP
from millstream.jobmanager.stall.facts import JobFacts, TaskFacts


class Waiter(Struct, frozen=True):
    """An operator with waiting windows, timers or records, in the subtask with the lowest event time."""

    task: TaskFacts
    operator: str
    position: int
    """The index among the operators of the task that report progress."""
    work: TimedWork | KeptRecords
    """The waiting work of all subtasks; its next event time is the earliest."""

    @property
    def target(self) -> int:
        """The event time that it waits for."""
        assert self.work.next_event_time is not None, "it waits for one"
        return self.work.next_event_time


class Holder(Struct, frozen=True):
    """A stream whose watermark holds a waiter back, and the operator that generates it."""

    task: TaskFacts
    operator: str
    origin: WatermarkOrigin
    stream: StreamTime | None
    """None if there are no watermarks, or no streams."""


class Holders:
    """Finds holders in the facts of one job."""

    def __init__(self, facts: JobFacts) -> None:
        self._facts = facts
        self._by_vertex: dict[VertexId, list[TaskFacts]] = {}
        for task in facts.tasks:
            self._by_vertex.setdefault(task.vertex_id, []).append(task)

    def of(self, waiter: Waiter) -> tuple[list[Holder], int]:
        """Returns the streams that hold it back, slowest first, and the highest event time that others have reached."""
        found: dict[tuple[VertexId, int, str, str], Holder] = {}
        ahead = [MIN_TIMESTAMP]
        for holder in self._behind(waiter.task, waiter.position, waiter.target, ahead):
            name = "" if holder.stream is None else holder.stream.name
            found.setdefault((holder.task.vertex_id, holder.task.subtask, holder.operator, name), holder)
        slowest = sorted(found.values(), key=lambda h: MIN_TIMESTAMP if h.stream is None else h.stream.watermark)
        return slowest, max(ahead)

    def _behind(self, task: TaskFacts, position: int, target: int, ahead: list[int]) -> Iterator[Holder]:
        origin = _origin_before(task, position)
        if origin is not None:
            yield from _streams(task, *origin, target, ahead)
            return
        inputs = task.progress.inputs
        if inputs is None:
            return
        ahead.append(inputs.highest)
        for stream in inputs.slowest:
            producer = self._producer(task, stream.name) if stream.watermark < target else None
            if producer is None or producer.state is not ExecutionState.RUNNING:
                continue
            left = producer.output_watermark
            if left is None or left < target:
                yield from self._behind(producer, len(producer.progress.operators), target, ahead)

    def _producer(self, task: TaskFacts, name: str) -> TaskFacts | None:
        """Returns the producer of this name; of several, the one with the lowest event time."""
        vertices = self._facts.producers.get(task.vertex_id, ())
        found = [other for vertex in vertices for other in self._by_vertex.get(vertex, ()) if other.name == name]
        return min(found, key=lambda other: other.output_watermark or MIN_TIMESTAMP, default=None)


def event_time_at(task: TaskFacts, position: int) -> EventTime | None:
    """Returns the event time of an operator of a task; None if the task has not reported."""
    origin = _origin_before(task, position)
    return task.progress.inputs if origin is None else origin[1].time


def _origin_before(task: TaskFacts, position: int) -> tuple[str, WatermarkOrigin] | None:
    """Returns the last operator before this one that generates watermarks."""
    for reported in reversed(task.progress.operators[:position]):
        if isinstance(reported.kind, WatermarkOrigin):
            return reported.operator, reported.kind
    return None


def _streams(
    task: TaskFacts, operator: str, origin: WatermarkOrigin, target: int, ahead: list[int]
) -> Iterator[Holder]:
    time = origin.time
    ahead.append(time.highest)
    behind = [stream for stream in time.slowest if stream.watermark < target]
    if behind:
        yield from (Holder(task, operator, origin, stream) for stream in behind)
    elif not time.streams:
        yield Holder(task, operator, origin, None)
