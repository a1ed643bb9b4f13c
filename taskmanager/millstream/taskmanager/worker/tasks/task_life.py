"""The lifecycle of a task, as a pure machine: the end of its input, stop-with-savepoint, and pending commits.

If checkpoints are enabled, a task whose input has ended waits until a checkpoint has completed whose snapshot it took
after its end: only then is everything committed that its last records produced. A savepoint that stops the job suspends
its sources from the barrier on; when it completes, the tasks end without finishing their operators, and when it is
aborted they continue. In no case does a task end while the commit of a completed checkpoint is pending.
"""

from __future__ import annotations

from enum import Enum

from millstream.core.jobs.barriers import StopMode


class Phase(Enum):
    """The phases of a task's lifecycle."""

    BUILT = "built"  # its operators are built, or are about to be
    RUNNING = "running"  # they are open, and records flow
    SUSPENDED = "suspended"  # a savepoint that stops the job was taken: sources emit nothing behind it
    STOPPED = "stopped"  # that savepoint is complete and committed: the task ends as soon as its producers have
    ENDED = "ended"  # all input was processed, and the end was sent downstream
    CLOSED = "closed"  # its operators are closed, and it is not used any more


TRANSITIONS: dict[Phase, frozenset[Phase]] = {
    Phase.BUILT: frozenset({Phase.RUNNING, Phase.CLOSED}),
    Phase.RUNNING: frozenset({Phase.SUSPENDED, Phase.ENDED, Phase.CLOSED}),
    Phase.SUSPENDED: frozenset({Phase.RUNNING, Phase.STOPPED, Phase.CLOSED}),
    Phase.STOPPED: frozenset({Phase.ENDED, Phase.CLOSED}),
    Phase.ENDED: frozenset({Phase.CLOSED}),
    Phase.CLOSED: frozenset(),
}


class TaskLife:
    """The lifecycle of one task. The ids of the checkpoints that a task takes ascend."""

    __slots__ = ("_awaited", "_awaits_checkpoint", "_failures", "_owed", "_stopping", "has_finished_operators", "phase")

    def __init__(self, awaits_checkpoint: bool) -> None:
        self.phase = Phase.BUILT
        self.has_finished_operators = False
        """Whether the operators have emitted their remaining output, at the end or for a savepoint: their state is
        final.
        """
        self._awaits_checkpoint = awaits_checkpoint
        self._awaited: int | None = None  # the first checkpoint that holds the end
        self._stopping: int | None = None
        self._owed: int | None = None
        self._failures = 0

    @property
    def is_open(self) -> bool:
        """Whether its operators have been opened, and not closed yet."""
        return self.phase not in (Phase.BUILT, Phase.CLOSED)

    @property
    def may_finish(self) -> bool:
        """Whether the task has nothing left to wait for, once the end was sent downstream."""
        return self._owed is None and not self._awaits_checkpoint

    def move_to(self, phase: Phase) -> None:
        """Moves to the next phase; raises if the transition is not allowed."""
        if phase not in TRANSITIONS[self.phase]:
            raise AssertionError(f"a task that is {self.phase.value} cannot become {phase.value}")
        self.phase = phase

    def ended(self) -> None:
        """The input has ended: later snapshots include the end.

        After a stop-with-savepoint no other snapshot is needed.
        """
        if self.phase is Phase.STOPPED:
            self._awaits_checkpoint = False
        self.move_to(Phase.ENDED)

    def captured(self, checkpoint_id: int, stop: StopMode) -> None:
        """The task has taken its snapshot."""
        if self.phase is Phase.ENDED:
            if self._awaited is None:
                self._awaited = checkpoint_id
        elif stop is not StopMode.NONE:
            self._stopping = checkpoint_id
            if self.phase is Phase.RUNNING:
                self.move_to(Phase.SUSPENDED)

    def committed(self, checkpoint_id: int) -> None:
        """A checkpoint has completed, and everything in it and in those before it is committed."""
        self._failures = 0
        if self._owed is not None and self._owed <= checkpoint_id:
            self._owed = None
        if self._awaited is not None and self._awaited <= checkpoint_id:
            self._awaits_checkpoint = False
        if self.phase is Phase.SUSPENDED and checkpoint_id == self._stopping:
            self.move_to(Phase.STOPPED)

    def commit_failed(self, checkpoint_id: int) -> int:
        """A commit of a completed checkpoint failed; returns how many failed in a row."""
        self._owed = checkpoint_id
        self._failures += 1
        return self._failures

    def aborted(self, checkpoint_id: int) -> None:
        """A checkpoint was aborted: a task that it was to stop continues."""
        if self.phase is Phase.SUSPENDED and checkpoint_id == self._stopping:
            self.move_to(Phase.RUNNING)
