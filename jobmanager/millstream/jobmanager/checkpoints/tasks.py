"""The current attempt of each subtask and its progress, which determine the attempts a checkpoint needs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum, auto

from millstream.core.jobs.ids import AttemptId, VertexId
from millstream.jobmanager.checkpoints.model import TaskRef
from millstream.jobmanager.failover.topology import JobTopology, Subtask


class Progress(Enum):
    """The progress of an attempt."""

    RUNNING = auto()
    ENDED = auto()  # has processed all its input and waits for a completed checkpoint
    FINISHED = auto()


class TaskTable:
    """The subtasks of the job with their attempts. A subtask without an attempt is not running."""

    def __init__(self, topology: JobTopology) -> None:
        self._topology = topology
        self._subtasks = tuple(topology.subtasks())
        self._tasks: dict[Subtask, TaskRef] = {}
        self._by_attempt: dict[AttemptId, TaskRef] = {}
        self._progress: dict[AttemptId, Progress] = {}
        self._finished: dict[VertexId, set[int]] = {vertex: set() for vertex in topology.parallelism}
        self._silent: dict[VertexId, set[int]] = {vertex: set() for vertex in topology.parallelism}

    def run(self, tasks: Iterable[TaskRef]) -> None:
        """Adds running attempts; attempts that are already known are left unchanged."""
        for task in tasks:
            if task.attempt_id not in self._by_attempt:
                self.remove([task.subtask])
                self._tasks[task.subtask] = self._by_attempt[task.attempt_id] = task
                self._progress[task.attempt_id] = Progress.RUNNING

    def end(self, attempts: Iterable[AttemptId]) -> None:
        """Marks attempts that have processed all their input and emit no more records or barriers."""
        for attempt in attempts:
            if self._progress.get(attempt) is Progress.RUNNING:
                self._progress[attempt] = Progress.ENDED
                self._add(self._silent, self._by_attempt[attempt].subtask)

    def finish(self, attempts: Iterable[AttemptId]) -> list[TaskRef]:
        """Marks attempts as finished; returns those that were not before."""
        done = []
        for attempt in attempts:
            task = self._by_attempt.get(attempt)
            if task is not None and self._progress[attempt] is not Progress.FINISHED:
                self._progress[attempt] = Progress.FINISHED
                self._add(self._finished, task.subtask)
                self._add(self._silent, task.subtask)
                done.append(task)
        return done

    def remove(self, subtasks: Iterable[Subtask] | None) -> None:
        """Removes subtasks that no longer run; None removes all."""
        for subtask in list(self._tasks) if subtasks is None else subtasks:
            task = self._tasks.pop(subtask, None)
            if task is not None:
                del self._by_attempt[task.attempt_id], self._progress[task.attempt_id]
                self._finished[subtask.vertex_id].discard(subtask.index)
                self._silent[subtask.vertex_id].discard(subtask.index)

    def knows(self, attempt: AttemptId) -> bool:
        """Whether the attempt is a current one."""
        return attempt in self._by_attempt

    def is_active(self, attempt: AttemptId) -> bool:
        """Whether the attempt is current and has not finished."""
        return self._progress.get(attempt) in (Progress.RUNNING, Progress.ENDED)

    def active(self) -> list[TaskRef]:
        """All current attempts that have not finished, producers first."""
        tasks = (self._tasks.get(subtask) for subtask in self._subtasks)
        return [task for task in tasks if task is not None and self.is_active(task.attempt_id)]

    def finished(self) -> list[TaskRef]:
        """All current attempts that have finished, producers first."""
        tasks = (self._tasks.get(subtask) for subtask in self._subtasks)
        return [t for t in tasks if t is not None and self._progress[t.attempt_id] is Progress.FINISHED]

    def starting_points(self) -> list[TaskRef]:
        """The tasks that have to be triggered: sources, tasks that have ended, and those whose producers all have."""
        return [
            task
            for task in self.active()
            if self._progress[task.attempt_id] is Progress.ENDED
            or self._topology.upstream_within(task.subtask, self._silent)
        ]

    def unfinished_producers(self, finished: Mapping[VertexId, Collection[int]]) -> set[VertexId]:
        """Returns the vertices that have not finished completely although one of their consumers has."""
        whole = {v for v, indexes in finished.items() if len(indexes) == self._topology.parallelism[v]}
        return {e.source for e in self._topology.edges if e.target in whole and e.source not in whole}

    @staticmethod
    def _add(places: dict[VertexId, set[int]], subtask: Subtask) -> None:
        places[subtask.vertex_id].add(subtask.index)

    @property
    def all_started(self) -> bool:
        """Whether every subtask runs or has finished."""
        return len(self._tasks) == len(self._subtasks)

    @property
    def is_empty(self) -> bool:
        """Whether no subtask runs or has finished."""
        return not self._tasks

    @property
    def any_active(self) -> bool:
        """Whether an attempt has not finished yet."""
        return any(progress is not Progress.FINISHED for progress in self._progress.values())

    @property
    def any_finished(self) -> bool:
        """Whether a subtask has finished."""
        return any(self._finished.values())

    @property
    def all_input_ended(self) -> bool:
        """Whether only a final checkpoint is missing for the job to finish."""
        return self.all_started and self.any_active and Progress.RUNNING not in self._progress.values()
