"""Which completed checkpoints a task has committed, and what becomes of commits that fail."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from thoroughness import cases

from millstream.taskmanager.worker.checkpointing.task_commits import COMMIT_ATTEMPTS, TaskCommits
from millstream.taskmanager.worker.operators.base import Operator
from millstream.taskmanager.worker.tasks.task_life import Phase, TaskLife


class Committer(Operator):
    """Commits when the test says so; each mail brings one checkpoint, or an error."""

    def __init__(self) -> None:
        setup: Any = SimpleNamespace(
            name="committer", state_entries=dict, context=None, input_types=(), output=None, side_outputs={},
            handover=None,
        )  # fmt: skip
        super().__init__(setup)
        self.notified: list[int] = []
        self.committed = 0
        self.error: Exception | None = None

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.notified.append(checkpoint_id)
        self.error = None

    def is_committed(self, checkpoint_id: int) -> bool:
        if self.committed >= checkpoint_id:
            return True
        if self.error is not None:
            raise self.error
        return False


class Raising(Committer):
    """Fails at once."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        super().notify_checkpoint_complete(checkpoint_id)
        raise OSError("away")


def running() -> TaskLife:
    life = TaskLife(awaits_checkpoint=True)
    life.move_to(Phase.RUNNING)
    life.ended()
    return life


def test_the_task_may_end_when_all_operators_have_committed() -> None:
    life, one, other = running(), Committer(), Committer()
    commits = TaskCommits(life, lambda number, error: pytest.fail("nothing failed"))
    life.captured(3, None)  # type: ignore[arg-type]  # no stop
    commits.completed(3, [one, other])
    one.committed = 3
    commits.look([one, other])
    assert not life.may_finish
    other.committed = 3
    commits.look([one, other])
    assert life.may_finish


def test_a_failure_is_reported_once_for_the_newest_checkpoint() -> None:
    reported: list[tuple[int, str]] = []
    one = Committer()
    commits = TaskCommits(running(), lambda number, error: reported.append((number, str(error))))
    commits.completed(1, [one])
    commits.completed(2, [one])
    one.error = OSError("away")
    commits.look([one])
    commits.look([one])
    assert reported == [(2, "away")]


def test_all_operators_are_notified_though_one_raises() -> None:
    one, other = Raising(), Committer()
    commits = TaskCommits(running(), lambda number, error: None)
    commits.completed(1, [one, other])
    assert (one.notified, other.notified) == ([1], [1])


def test_too_many_failures_in_a_row_are_raised() -> None:
    reported: list[int] = []
    commits = TaskCommits(running(), lambda number, error: reported.append(number))
    for _ in range(COMMIT_ATTEMPTS - 1):
        commits.completed(1, [Raising()])
    with pytest.raises(OSError, match="away"):
        commits.completed(1, [Raising()])
    assert reported == [1] * (COMMIT_ATTEMPTS - 1)


class AnyOrder(RuleBasedStateMachine):
    """Checkpoints complete, commits end or fail, notifications are repeated, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.life = running()
        self.operators = [Committer(), Committer()]
        self.commits = TaskCommits(self.life, lambda number, error: self.owed.append(number))
        self.owed: list[int] = []
        self.newest = 0

    @rule()
    def complete(self) -> None:
        self.newest += 1
        self.life.captured(self.newest, None)  # type: ignore[arg-type]  # no stop
        self.commits.completed(self.newest, self.operators)
        self.owed.clear()  # the notification of a newer checkpoint replaces one that is to be repeated

    @precondition(lambda self: self.owed)
    @rule()
    def repeat(self) -> None:
        self.commits.completed(self.owed.pop(), self.operators)

    @rule(at=st.integers(0, 1))
    def one_more_is_committed(self, at: int) -> None:
        operator = self.operators[at]
        if operator.error is None and operator.committed < self.newest:
            operator.committed += 1
        self.commits.look(self.operators)

    @precondition(lambda self: not self.owed)
    @rule(at=st.integers(0, 1))
    def a_commit_fails(self, at: int) -> None:
        if self.operators[at].committed < self.newest:
            self.operators[at].error = OSError("away")
            try:
                self.commits.look(self.operators)
            except OSError:  # as often in a row as is allowed: the task fails
                self.life.committed(0)
                self.owed.append(self.newest)

    @invariant()
    def the_task_ends_only_with_all_commits(self) -> None:
        first = min(operator.committed for operator in self.operators)
        if self.newest:
            assert not self.life.may_finish or first >= 1

    def teardown(self) -> None:
        for operator in self.operators:
            operator.committed, operator.error = self.newest, None
        if self.newest:
            self.commits.completed(self.newest, self.operators)
            assert self.life.may_finish


AnyOrder.TestCase.settings = settings(max_examples=cases(50), stateful_step_count=20)
TestAnyOrder = AnyOrder.TestCase
