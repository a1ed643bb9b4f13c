"""The bookkeeping of transactions compared with a model: a replayed source and a store of committed records."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from thoroughness import cases

from millstream.taskmanager.worker.operators.sinks.transactions import ElementKind, SinkTransactions, recovery


class TransactionModel(RuleBasedStateMachine):
    """Transactions are numbers. Records are numbers that return to the barrier of the restored checkpoint."""

    def __init__(self) -> None:
        super().__init__()
        self.written: dict[int, list[int]] = {}
        self.committed: list[int] = []
        self.barrier = 0
        self.completed = 0
        self.snapshots: dict[int, tuple[int, list[Any]]] = {0: (0, [])}
        self.restore()

    def restore(self) -> None:
        self.transactions: SinkTransactions[int] = SinkTransactions()
        self.position, elements = self.snapshots[self.completed]
        self.snapshots = {self.completed: (self.position, elements)}
        recovered = recovery(elements, elements)
        for transaction in recovered.commit:
            if transaction not in self.committed:  # the store has its contents
                self.committed.append(transaction)
        for transaction in recovered.abort:
            assert transaction not in self.committed
        self.begin()

    def begin(self) -> None:
        number = len(self.written)
        self.written[number] = []
        self.transactions.begun(number)

    @property
    def visible(self) -> list[int]:
        return [record for transaction in self.committed for record in self.written[transaction]]

    @rule(count=st.integers(1, 3))
    def write(self, count: int) -> None:
        (transaction,) = self.transactions.open
        self.written[transaction] += range(self.position, self.position + count)
        self.position += count

    @rule()
    def reach_barrier(self) -> None:
        self.barrier += 1
        self.transactions.pre_committed(self.barrier)
        self.begin()
        self.snapshots[self.barrier] = (self.position, self.transactions.elements())

    @precondition(lambda self: max(self.snapshots) > self.completed)
    @rule(data=st.data(), failing=st.integers(0, 3))
    def complete(self, data: st.DataObject, failing: int) -> None:
        self.completed = data.draw(st.sampled_from([n for n in self.snapshots if n > self.completed]))
        self.snapshots = {n: held for n, held in self.snapshots.items() if n >= self.completed}
        self.notify(failing)

    @rule(failing=st.integers(0, 3))
    def notify_again(self, failing: int) -> None:
        self.notify(failing)

    def notify(self, failing: int) -> None:
        """The commit at that position fails."""
        for position, transaction in enumerate(self.transactions.due(self.completed)):
            if position == failing:
                return
            assert transaction not in self.committed
            self.committed.append(transaction)
            self.transactions.committed(transaction)

    @rule()
    def crash(self) -> None:
        self.restore()

    @precondition(lambda self: max(self.snapshots) > self.completed)
    @rule()
    def give_up(self) -> None:
        """The tasks are notified, and have nothing to do."""
        self.snapshots = {self.completed: self.snapshots[self.completed]}

    @invariant()
    def shows_only_what_a_completed_checkpoint_holds_and_that_once_and_in_order(self) -> None:
        assert self.visible == list(range(len(self.visible)))
        assert len(self.visible) <= self.snapshots[self.completed][0]

    def teardown(self) -> None:
        self.reach_barrier()
        self.completed = self.barrier
        self.notify(len(self.written))
        assert self.visible == list(range(self.position))
        assert self.transactions.elements() == [("open", self.transactions.open[0])]


TestTransactionModel = TransactionModel.TestCase
TestTransactionModel.settings = settings(max_examples=cases(150), stateful_step_count=30)


@given(
    st.lists(st.tuples(st.sampled_from([kind.value for kind in ElementKind]), st.integers()), max_size=12),
    st.integers(1, 5),
)
def test_another_parallelism_assigns_each_element_to_one_subtask_and_shows_it_to_all(
    elements: list[tuple[str, int]], parallelism: int
) -> None:
    parts = [recovery(elements[subtask::parallelism], elements) for subtask in range(parallelism)]
    for kind, taken in (("pre-committed", "commit"), ("open", "abort"), ("writer", "states")):
        everywhere = [content for part in parts for content in getattr(part, taken)]
        assert sorted(everywhere) == sorted(content for found, content in elements if found == kind)
    for part in parts:
        assert len(part.known) + len(part.known_states) == len(elements)


def test_after_the_end_nothing_is_pre_committed() -> None:
    transactions: SinkTransactions[str] = SinkTransactions()
    transactions.begun("last")
    transactions.pre_committed(1)
    transactions.pre_committed(2)
    assert transactions.elements() == [("pre-committed", "last")]
    assert transactions.due(1) == ["last"]


def test_mistakes_of_the_operator_are_detected() -> None:
    transactions: SinkTransactions[str] = SinkTransactions()
    transactions.begun("a")
    with pytest.raises(AssertionError, match="begins after"):
        transactions.begun("b")
    transactions.pre_committed(1)
    transactions.begun("b")
    transactions.pre_committed(2)
    with pytest.raises(AssertionError, match="in order"):
        transactions.committed("b")


def test_an_aborted_transaction_is_not_open_any_more() -> None:
    transactions = SinkTransactions[str]()
    transactions.begun("a")
    transactions.aborted()
    assert transactions.open == []
    assert transactions.elements() == []
    transactions.begun("b")
    assert transactions.open == ["b"]
