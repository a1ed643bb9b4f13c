"""A broadcast record may visit the keyed state of all keys of its subtask."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from millstream.core.jobs.plan import plan
from millstream.core.records.batches import RowBatch
from millstream.core.records.types import from_hint
from millstream.datastream import KeyedBroadcastProcessFunction, KeyedStateFunction, RuntimeContext
from millstream.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from millstream.taskmanager.testing import OperatorHarness
from millstream.taskmanager.worker.operators.base import OperatorError

TOTAL = ValueStateDescriptor("total", int)
SEEN = ListStateDescriptor("seen", int)
KEYS = plan.TwoInputKeys(plan.KeySelector(fields=(0,)), None, from_hint(str))


class Doubling(KeyedStateFunction):
    def process(self, key: Any, state: Any) -> None:
        state.update(2 * state.value())


class Totals(KeyedBroadcastProcessFunction):
    """Records are `(key, number)`; a broadcast record determines what is done with all keys."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(TOTAL)
        self.seen = runtime_context.get_list_state(SEEN)

    def process_element(self, value: Any, ctx: Any) -> None:
        self.total.update((self.total.value() or 0) + value[1])
        self.seen.add(value[1])

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        match value:
            case "double":
                ctx.apply_to_keyed_state(TOTAL, Doubling())
            case "forget":
                ctx.apply_to_keyed_state(SEEN, lambda key, state: state.clear())
                ctx.apply_to_keyed_state(TOTAL, lambda key, state: key == "b" and state.clear())
            case "wrong":
                ctx.apply_to_keyed_state("total", Doubling())
            case "outside":
                self.total.value()
        found: list[Any] = []
        ctx.apply_to_keyed_state(TOTAL, lambda key, state: found.append((key, state.value())))
        ctx.apply_to_keyed_state(SEEN, lambda key, state: found.append((key, list(state.get()))))
        yield sorted(found, key=repr)


def totals(restored: Any = None) -> OperatorHarness:
    spec = plan.BroadcastProcessSpec(Totals(), (MapStateDescriptor("rules", str, str),), KEYS)
    return OperatorHarness(spec, from_hint(tuple[str, int]), from_hint(str), restored=restored).open()


def result_of(made: OperatorHarness, what: str) -> Any:
    (result,) = made.process(RowBatch([what]), input_index=1)
    return result


def test_every_key_is_visited_with_its_state() -> None:
    made = totals()
    assert result_of(made, "") == []
    made.process(RowBatch([("a", 1), ("b", 2), ("a", 3)]))
    assert result_of(made, "double") == [("a", 8), ("a", [1, 3]), ("b", 4), ("b", [2])]
    assert result_of(made, "forget") == [("a", 8)], "what a function clears is gone"
    made.process(RowBatch([("b", 5)]))
    assert result_of(made, "") == [("a", 8), ("b", 5), ("b", [5])]


def test_keys_of_a_snapshot_are_visited() -> None:
    made = totals()
    made.process(RowBatch([("a", 1), ("b", 2)]))
    assert result_of(totals(made.snapshot()), "double") == [("a", 2), ("a", [1]), ("b", 4), ("b", [2])]


@pytest.mark.parametrize(("what", "match"), [("wrong", "expected a StateDescriptor"), ("outside", "without a key")])
def test_other_than_keyed_state_is_refused(what: str, match: str) -> None:
    made = totals()
    made.process(RowBatch([("a", 1)]))
    result_of(made, "double")
    with pytest.raises(OperatorError) as caught:
        result_of(made, what)
    assert match in str(caught.value.__cause__)
