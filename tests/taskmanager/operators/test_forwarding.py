"""An operator around another one: no hook is lost, neither by the base nor by the held input of batch mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from millstream.core.jobs.plan import plan
from millstream.core.jobs.state_kinds import StateKind
from millstream.core.records.batches import Barrier, Batch, RowBatch
from millstream.taskmanager.testing import GivenElements, OperatorHarness
from millstream.taskmanager.worker.operators.base import Operator, RestoredElements
from millstream.taskmanager.worker.operators.batch.held_input import HeldInput
from millstream.taskmanager.worker.operators.forwarding import ForwardingOperator
from millstream.taskmanager.worker.operators.registry import builds
from millstream.taskmanager.worker.operators.setup import OperatorSetup

_HELPERS = {"input_type", "rows_of", "with_own_kinds", "is_plain", "handed_over", "failed"}
"""What operators use themselves, and tasks do not call."""
_VALUES = {"keyed_state", "operator_state", "only_reads", "polls_columns", "records_written"}
"""Attributes: the wrapped operator's, from the beginning on or as a property."""


def hooks(operator: type[Operator]) -> set[str]:
    return {name for name in vars(operator) if not name.startswith("_")}


def test_each_hook_of_operators_is_forwarded() -> None:
    assert hooks(Operator) - _HELPERS - _VALUES == hooks(ForwardingOperator) - {"records_written"}


class Noting:
    """Returns its name for any attribute that is looked up, and notes calls."""

    def __init__(self) -> None:
        self.noted: list[str] = []

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> tuple[Any, ...]:
            self.noted.append(name)
            return (name, *arguments)

        return call


@pytest.mark.parametrize("name", sorted(hooks(ForwardingOperator)))
def test_it_is_forwarded_with_its_arguments_and_its_result(name: str) -> None:
    wrapped = Noting()
    operator = ForwardingOperator.__new__(ForwardingOperator)
    operator.inner = wrapped  # type: ignore[assignment]  # anything that has the hooks
    if isinstance(vars(ForwardingOperator)[name], property):
        assert getattr(operator, name)() == (name,)
        return
    hook = getattr(operator, name)
    taken = hook.__code__.co_varnames[1 : hook.__code__.co_argcount]
    result = hook(*taken)
    assert wrapped.noted == [name]
    assert result in (None, (name, *taken))
    assert (result is None) == (hook.__annotations__["return"] in (None, "None"))


@dataclass(frozen=True, slots=True)
class HookedSpec(plan.OperatorSpec):
    """On a keyed stream."""

    kind = "hooked"

    def keyed_by(self) -> tuple[plan.KeySelector, ...]:
        return (plan.KeySelector(fields=(0,)),)

    def held_state(self) -> frozenset[StateKind]:
        return frozenset({StateKind.SPLITS})  # any kind that belongs to the operator itself


@builds(HookedSpec)
class HookedOperator(Operator):
    """Uses the hooks that operators of batch jobs were not called with before."""

    room = True
    drained = True
    settled = True
    committed = True
    restored: list[Any]

    def __init__(self, setup: OperatorSetup, spec: HookedSpec) -> None:
        super().__init__(setup)

    def restore(self, restored: RestoredElements) -> None:
        self.restored = restored.own()

    def process(self, batch: Batch) -> None:
        self.output.emit(batch)

    def on_time(self, now: float) -> float | None:
        self.output.emit(RowBatch([("on time", now)]))
        return now + 5

    def on_mail(self, mail: Any) -> Any:
        self.output.emit(RowBatch([("mail", mail)]))
        return "handled"

    @property
    def has_room(self) -> bool:
        return self.room

    @property
    def is_drained(self) -> bool:
        return self.drained

    @property
    def is_settled(self) -> bool:
        return self.settled

    def is_committed(self, checkpoint_id: int) -> bool:
        return self.committed

    def elements(self, checkpoint_id: int) -> Mapping[StateKind, Sequence[Any]]:
        return {StateKind.SPLITS: ["kept"]}

    def finish(self) -> None:
        self.output.emit(RowBatch([("the", "end")]))


@pytest.fixture
def made() -> OperatorHarness:
    made = OperatorHarness(HookedSpec(), batch=True).open()
    assert isinstance(made.operator, HeldInput)
    return made


def wrapped(made: OperatorHarness) -> HookedOperator:
    assert isinstance(made.operator, HeldInput)
    assert isinstance(made.operator.inner, HookedOperator)
    return made.operator.inner


def test_time_passes_for_the_operator_of_a_held_input(made: OperatorHarness) -> None:
    assert made.advance(2) == 5
    assert made.out.rows == [("on time", made.clock.monotonic())]


def test_mails_reach_it(made: OperatorHarness) -> None:
    assert made.operator.on_mail("a letter") == "handled"
    assert made.out.rows == [("mail", "a letter")]


def test_the_task_waits_for_its_room_and_for_what_it_holds(made: OperatorHarness) -> None:
    assert made.operator.has_room
    assert made.operator.is_drained
    wrapped(made).room = wrapped(made).drained = False
    assert not made.operator.has_room
    assert not made.operator.is_drained


def test_it_is_not_finished_before_its_results_have_come(made: OperatorHarness) -> None:
    made.end_input()
    wrapped(made).settled = False
    assert not made.finish()
    wrapped(made).settled = True
    assert made.finish()
    assert made.out.rows == [("the", "end")], "what it emits at its end is sent"


def test_its_own_state_is_in_snapshots_and_restored(made: OperatorHarness) -> None:
    made.end_input()
    made.operator.prepare_snapshot(Barrier(1, 0))
    assert made.operator.elements(1) == {StateKind.SPLITS: ["kept"]}
    made.operator.restore(GivenElements(StateKind.SPLITS, ["kept before"]))
    assert wrapped(made).restored == ["kept before"]


def test_the_task_waits_for_its_commits(made: OperatorHarness) -> None:
    assert made.complete(1)
    wrapped(made).committed = False
    assert not made.complete(2)
