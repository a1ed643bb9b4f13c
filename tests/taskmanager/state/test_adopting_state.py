"""State of single precision, and of rows with names: reads return the same before and after a restore."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from state_rig import BACKENDS, Keyed, captured, decoded

from millstream.core.records import types as t
from millstream.core.row import Row
from millstream.datastream.functions import AggregateFunction
from millstream.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateAccessError,
    StateDescriptor,
    ValueStateDescriptor,
)
from millstream.taskmanager.worker.state.adopting import adopting
from millstream.taskmanager.worker.state.heap import HeapOperatorStateBackend

PAIR = t.TupleType((t.STRING, t.FLOAT))
ROW = t.RowType((t.LONG, t.FLOAT), ("a", "b"))


def single(value: float) -> float:
    return float(np.float32(value))


class Sum(AggregateFunction):
    def create_accumulator(self) -> float:
        return 0.0

    def add(self, value: float, accumulator: float) -> float:
        return accumulator + value

    def get_result(self, accumulator: float) -> float:
        return accumulator

    def merge(self, acc1: float, acc2: float) -> float:
        return acc1 + acc2


def sums(old: float, new: float) -> float:
    return old + new


NUMBERS = (single(0.1), single(0.7))
THIRDS = single(sum(NUMBERS))
CASES: list[tuple[StateDescriptor, Any, Any, Any]] = [
    (ValueStateDescriptor("s", t.FLOAT), lambda s: s.update(0.1), lambda s: s.value(), single(0.1)),
    (ValueStateDescriptor("s", PAIR), lambda s: s.update(("a", 2)), lambda s: s.value(), ("a", 2.0)),
    (ValueStateDescriptor("s", ROW), lambda s: s.update(Row(1, 0.1)), lambda s: s.value(), Row(a=1, b=single(0.1))),
    (ListStateDescriptor("s", t.FLOAT), lambda s: s.add_all([0.1, 2]), lambda s: s.get(), [single(0.1), 2.0]),
    (ListStateDescriptor("s", t.FLOAT), lambda s: s.add(0.1), lambda s: s.get(), [single(0.1)]),
    (ListStateDescriptor("s", t.FLOAT), lambda s: s.update([0.1]), lambda s: s.get(), [single(0.1)]),
    (MapStateDescriptor("s", t.FLOAT, t.LONG), lambda s: s.put(0.1, 1), lambda s: s.get(0.1), 1),
    (MapStateDescriptor("s", t.LONG, t.FLOAT), lambda s: s.put_all({1: 0.1}), lambda s: s.items(), [(1, single(0.1))]),
    (ReducingStateDescriptor("s", sums, t.FLOAT), lambda s: [s.add(0.1), s.add(0.7)], lambda s: s.get(), THIRDS),
    (AggregatingStateDescriptor("s", Sum(), t.FLOAT), lambda s: [s.add(x) for x in NUMBERS], lambda s: s.get(), THIRDS),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("descriptor", "write", "read", "expected"), CASES, ids=[str(case[0]) for case in CASES])
def test_reads_return_the_same_before_and_after_a_restore(
    backend: str, descriptor: StateDescriptor, write: Any, read: Any, expected: Any
) -> None:
    keyed = Keyed(BACKENDS[backend], t.STRING).at("key")
    state = adopting(descriptor, keyed.backend.state)
    write(state)
    assert repr(read(state)) == repr(expected)
    again = keyed.again()
    again.backend.restore([decoded(captured(keyed.backend, "s"))])
    assert repr(read(adopting(descriptor, again.at("key").backend.state))) == repr(expected)


def test_operator_state() -> None:
    store = HeapOperatorStateBackend().store
    elements = store.get_list_state("l", t.FLOAT)
    elements.update([0.1])
    assert list(elements) == [single(0.1)]
    entries = store.get_broadcast_state("b", t.STRING, t.FLOAT)
    entries.put("a", 0.1)
    assert entries.get("a") == single(0.1)
    entries.remove("a")
    assert entries.is_empty()
    assert not entries.contains("a")


def test_a_number_that_is_too_large_is_reported_with_its_state() -> None:
    state = adopting(ValueStateDescriptor("s", t.FLOAT), Keyed(BACKENDS["hashmap"]).at(1).backend.state)
    with pytest.raises(StateAccessError, match=r"state 's' cannot hold 1e\+39: it is too large for single precision"):
        state.update(1e39)
