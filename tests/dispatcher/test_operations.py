"""The table of operations: the same key is the same operation, outcomes stay for a while, nothing grows without end."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from thoroughness import cases

from millstream.dispatcher.operations import OperationKey, OperationKind, Operations, Outcome, TooManyOperationsError

KEEP = 10.0
CAPACITY = 3


def key(trigger_id: str, kind: OperationKind = OperationKind.SAVEPOINT, job_id: str = "j") -> OperationKey:
    return OperationKey(kind, job_id, trigger_id)


def test_an_operation_from_its_start_until_it_is_forgotten() -> None:
    table = Operations(KEEP, CAPACITY)
    assert not table.knows(key("a"), 0.0)
    table.begin(key("a"), 0.0)
    assert table.knows(key("a"), 1000.0), "what is in progress is never forgotten"
    assert table.outcome(key("a")) is None
    table.end(key("a"), Outcome(location="/x"), 1000.0)
    assert table.knows(key("a"), 1009.9)
    assert table.outcome(key("a")) == Outcome(location="/x")
    assert not table.knows(key("a"), 1010.0)
    table.begin(key("a"), 1010.0)


def test_jobs_and_kinds_have_trigger_ids_of_their_own() -> None:
    table = Operations(KEEP, CAPACITY)
    table.begin(key("a"), 0.0)
    assert not table.knows(key("a", job_id="k"), 0.0)
    assert not table.knows(key("a", OperationKind.CHECKPOINT), 0.0)
    with pytest.raises(AssertionError):
        table.begin(key("a"), 0.0)


class OperationHistories(RuleBasedStateMachine):
    """The model keeps everything that ever happened; the table must agree with what the rules make of that."""

    def __init__(self) -> None:
        super().__init__()
        self.table = Operations(KEEP, CAPACITY)
        self.now = 0.0
        self.under_way: set[OperationKey] = set()
        self.ends: list[tuple[float, OperationKey, Outcome]] = []

    def remembered(self) -> dict[OperationKey, Outcome]:
        return {key: outcome for at, key, outcome in self.ends[-CAPACITY:] if self.now - at < KEEP}

    @rule(name=st.sampled_from("abcdefgh"), kind=st.sampled_from(OperationKind))
    def begin(self, name: str, kind: OperationKind) -> None:
        wanted = key(name, kind)
        if self.table.knows(wanted, self.now):
            return
        if len(self.under_way) == CAPACITY:
            with pytest.raises(TooManyOperationsError):
                self.table.begin(wanted, self.now)
        else:
            self.table.begin(wanted, self.now)
            self.under_way.add(wanted)
            self.ends = [end for end in self.ends if end[1] != wanted]

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), number=st.integers(1, 9))
    def end(self, data: st.DataObject, number: int) -> None:
        ended = data.draw(st.sampled_from(sorted(self.under_way, key=str)))
        outcome = Outcome(checkpoint_id=number)
        self.table.end(ended, outcome, self.now)
        self.under_way.remove(ended)
        self.ends.append((self.now, ended, outcome))

    @rule(seconds=st.floats(0.1, KEEP))
    def let_time_pass(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def agrees(self) -> None:
        remembered = self.remembered()
        for name in "abcdefgh":
            for kind in OperationKind:
                asked = key(name, kind)
                known = self.table.knows(asked, self.now)
                assert known == (asked in self.under_way or asked in remembered)
                if known:
                    assert self.table.outcome(asked) == (None if asked in self.under_way else remembered[asked])


TestOperationHistories = OperationHistories.TestCase
TestOperationHistories.settings = settings(max_examples=cases(60), stateful_step_count=30)
