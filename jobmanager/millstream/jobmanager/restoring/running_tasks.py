"""Whether a job can continue with tasks that run already, from the restore point that is stored for it. Pure.

Tasks of an earlier leader are beyond the last completed checkpoint, all by the same records. The enumerators of sources
are not: they lived with that leader, and continue from the checkpoint. What they gave to readers after it, the readers
have, and a new enumerator has to know.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import VertexId
from millstream.core.messages.sources import RunningReader
from millstream.core.messages.takeover import NOT_CAPTURED, FoundReader, FoundTask


def why_not(graph: JobGraph, tasks: Iterable[FoundTask], restore_point: int) -> str:
    """Why the tasks cannot continue; empty when they can. The graph is that of the job as it fits the restore point."""
    vertices = {vertex.id: vertex for vertex in graph.vertices}
    for task in tasks:
        vertex = vertices[task.vertex_id]
        name = f"{vertex.name} ({task.subtask + 1}/{vertex.parallelism})"
        if task.max_parallelism != vertex.max_parallelism:
            return f"{name} runs with {task.max_parallelism} key groups, and the job has {vertex.max_parallelism}"
        if task.completed > restore_point:
            return f"{name} has committed checkpoint {task.completed}, and the store knows of {restore_point} at most"
        if task.reader is not None and not task.reader.is_known:
            return f"the splits that {name} was given since checkpoint {restore_point} are too many to be kept"
        if task.reader is not None and task.reader.has_events:
            return f"{name} and its enumerator have exchanged events, which the enumerator's state may not show"
    return ""


def running_readers(
    graph: JobGraph, tasks: Iterable[FoundTask], restore_point: int
) -> dict[VertexId, tuple[RunningReader, ...]]:
    """The readers of each source, with what they were given after the restore point."""
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
    """The checkpoints that the tasks may still work for, and that nobody will complete."""
    return sorted({number for task in tasks for number in task.under_way if number > restore_point})
