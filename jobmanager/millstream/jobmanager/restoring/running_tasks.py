"""Decides whether a new leader can take over a job's running tasks, given the stored restore point. Pure.

The tasks of an earlier leader are past the last completed checkpoint, consistently with each other. The enumerators of
sources are not: they ran with that leader, and are restored from the checkpoint. Splits that they assigned after it are
with the readers, and the new enumerators must be given them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import VertexId
from millstream.core.messages.sources import RunningReader
from millstream.core.messages.takeover import NOT_CAPTURED, FoundReader, FoundTask


def why_not(graph: JobGraph, tasks: Iterable[FoundTask], restore_point: int) -> str:
    """Returns why the tasks cannot continue, or an empty string. `graph` is the job fitted to the restore point."""
    vertices = {vertex.id: vertex for vertex in graph.vertices}
    for task in tasks:
        vertex = vertices[task.vertex_id]
        name = f"{vertex.name} ({task.subtask + 1}/{vertex.parallelism})"
        if task.max_parallelism != vertex.max_parallelism:
            return f"{name} runs with {task.max_parallelism} key groups, and the job has {vertex.max_parallelism}"
        if task.completed > restore_point:
            return f"{name} has committed checkpoint {task.completed}, but the latest stored one is {restore_point}"
        if task.reader is not None and not task.reader.is_known:
            return f"the splits assigned to {name} since checkpoint {restore_point} are too many to be kept"
        if task.reader is not None and task.reader.has_events:
            return f"{name} and its enumerator have exchanged events that the enumerator's state may not include"
    return ""


def running_readers(
    graph: JobGraph, tasks: Iterable[FoundTask], restore_point: int
) -> dict[VertexId, tuple[RunningReader, ...]]:
    """Returns the readers of each source, with the splits assigned to them after the restore point."""
    readers: dict[VertexId, list[RunningReader]] = {vertex.id: [] for vertex in graph.vertices if vertex.source}
    for task in tasks:
        if task.vertex_id in readers:
            given = _given_after(task.reader or FoundReader(), restore_point)
            readers[task.vertex_id].append(RunningReader(task.subtask, given))
    return {vertex: tuple(sorted(found, key=lambda r: r.subtask)) for vertex, found in readers.items()}


def _given_after(reader: FoundReader, restore_point: int) -> tuple[bytes, ...]:
    return tuple(
        splits
        for assigned in reader.assigned
        if assigned.checkpoint_id == NOT_CAPTURED or assigned.checkpoint_id > restore_point
        for splits in assigned.splits
    )


def under_way(tasks: Collection[FoundTask], restore_point: int) -> list[int]:
    """Returns the checkpoints that were pending at the tasks and will not complete."""
    return sorted({number for task in tasks for number in task.under_way if number > restore_point})
