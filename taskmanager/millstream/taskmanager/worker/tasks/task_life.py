"""The life of a task, as a pure machine: the end of its input, savepoints that stop the job, and owed commits.

A task whose input has ended stays, where checkpoints are taken, until one has completed whose snapshot it took after
its end: only then is everything committed that its last records caused. A savepoint that stops the job suspends its
sources from the barrier on; when it is complete the tasks end without finishing their operators, and when it is given
up they continue. However a task ends, it does not while it owes the commit of a completed checkpoint.
"""

from __future__ import annotations

from enum import Enum

from millstream.core.jobs.barriers import StopMode


class Phase(Enum):
    """Where a task is in its life."""

    BUILT = "built"  # it has its operators, or will have them
    RUNNING = "running"  # they are open, and records flow
    SUSPENDED = "suspended"  # a savepoint that stops the job was taken: sources emit nothing behind it
    STOPPED = "stopped"  # that savepoint is complete and committed: the task ends as soon as its producers have
    ENDED = "ended"  # all input was handled, and the end has been sent on
    CLOSED = "closed"  # its operators are closed, and nothing of it is used any more


TRANSITIONS: dict[Phase, frozenset[Phase]] = {
    Phase.BUILT: frozenset({Phase.RUNNING, Phase.CLOSED}),
    Phase.RUNNING: frozenset({Phase.SUSPENDED, Phase.ENDED, Phase.CLOSED}),
    Phase.SUSPENDED: frozenset({Phase.RUNNING, Phase.STOPPED, Phase.CLOSED}),
    Phase.STOPPED: frozenset({Phase.ENDED, Phase.CLOSED}),
    Phase.ENDED: frozenset({Phase.CLOSED}),
    Phase.CLOSED: frozenset(),
}


class TaskLife:
    """Of one task. Ids of the checkpoints that a task takes ascend."""

    __slots__ = ("_awaited", "_awaits_checkpoint", "_failures", "_owed", "_stopping", "has_finished_operators", "phase")

    def __init__(self, awaits_checkpoint: bool) -> None:
        self.phase = Phase.BUILT
        self.has_finished_operators = False
        """Whether they have emitted what was left, at the end or for a savepoint: nothing changes their state now."""
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
        """Whether nothing has to be waited for any more, once the end has been sent on."""
        return self._owed is None and not self._awaits_checkpoint

    def move_to(self, phase: Phase) -> None:
        """A step of its life, which has to be a legal one."""
        if phase not in TRANSITIONS[self.phase]:
            raise AssertionError(f"a task that is {self.phase.value} cannot become {phase.value}")
        self.phase = phase

    def ended(self) -> None:
        """All input was handled: snapshots from now on hold the end. One that a savepoint stopped needs no other."""
        if self.phase is Phase.STOPPED:
            self._awaits_checkpoint = False
        self.move_to(Phase.ENDED)

    def captured(self, checkpoint_id: int, stop: StopMode) -> None:
        """The task has taken a snapshot."""
        if self.phase is Phase.ENDED:
            if self._awaited is None:
                self._awaited = checkpoint_id
        elif stop is not StopMode.NONE:
            self._stopping = checkpoint_id
            if self.phase is Phase.RUNNING:
                self.move_to(Phase.SUSPENDED)

    def committed(self, checkpoint_id: int) -> None:
        """A checkpoint is complete, and all that it and those before it hold is committed."""
        self._failures = 0
        if self._owed is not None and self._owed <= checkpoint_id:
            self._owed = None
        if self._awaited is not None and self._awaited <= checkpoint_id:
            self._awaits_checkpoint = False
        if self.phase is Phase.SUSPENDED and checkpoint_id == self._stopping:
            self.move_to(Phase.STOPPED)

    def commit_failed(self, checkpoint_id: int) -> int:
        """A completed checkpoint could not be committed; returns how often in a row that was."""
        self._owed = checkpoint_id
        self._failures += 1
        return self._failures

    def aborted(self, checkpoint_id: int) -> None:
        """A checkpoint was given up: a task that it was to stop continues."""
        if self.phase is Phase.SUSPENDED and checkpoint_id == self._stopping:
            self.move_to(Phase.RUNNING)
