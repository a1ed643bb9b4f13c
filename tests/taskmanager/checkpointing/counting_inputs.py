"""Operators with several inputs of different types, all keyed by a number, that count the records of each input."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from millstream.core.jobs.plan import plan
from millstream.core.records import types as t
from millstream.core.records.batches import Batch, RowBatch
from millstream.datastream.functions import Function, KeyedCoProcessFunction, RuntimeContext
from millstream.taskmanager.worker.operators.multiple_input import MultipleInputOperator
from millstream.taskmanager.worker.operators.registry import builds
from millstream.taskmanager.worker.operators.setup import OperatorSetup

PAIR = t.TupleType((t.LONG, t.STRING))
TYPES = (t.LONG, t.STRING, PAIR)
SELECTORS = (
    plan.KeySelector(function=lambda number: number), plan.KeySelector(function=int), plan.KeySelector(fields=(0,)),
)  # fmt: skip


def records(input_index: int, keys: Iterable[int]) -> list[Any]:
    """A record of an input's type for each key."""
    made = (int, str, lambda key: (key, "x" * 100))[input_index]
    return [made(key) for key in keys]


def counted(*keys: Iterable[int]) -> Counter[Any]:
    """What is emitted for records with these keys, by input: each key with its input and the count so far."""
    return Counter(
        (key, number, count)
        for number, of_input in enumerate(keys)
        for key, total in Counter(of_input).items()
        for count in range(1, total + 1)
    )


class Counts(Function):
    """Keyed state: how many records each input had."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.state = runtime_context.get_map_state("counts", int, int)

    def count(self, key: int, number: int) -> tuple[int, int, int]:
        count = (self.state.get(number) or 0) + 1
        self.state.put(number, count)
        return key, number, count


class CountInputsSpec(plan.FunctionSpec, plan.MultipleInputSpec, frozen=True):
    kind = "count_inputs"
    inputs = 3
    keys: plan.InputKeys


@builds(CountInputsSpec)
class CountInputsOperator(MultipleInputOperator):
    def __init__(self, setup: OperatorSetup, spec: CountInputsSpec) -> None:
        super().__init__(setup, spec.function, spec.keys)

    def process_input(self, input_index: int, batch: Batch) -> None:
        rows, key_of = self.records_of(input_index, batch), self.key_functions[input_index]
        assert key_of is not None
        source = iter(rows)
        count = self.function.count
        try:
            out = [count(key_of(record), input_index) for record in self.entering(source, key_of)]
        except Exception as error:
            raise self.failed(error, rows, source, key_of) from error
        finally:
            self.leave_key()
        self.output.emit(RowBatch(out, batch.row_times()))


class CountBoth(KeyedCoProcessFunction):
    """The same with two inputs, as a user's function."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.counts = Counts()
        self.counts.open(runtime_context)

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        yield self.counts.count(ctx.get_current_key(), 0)

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        yield self.counts.count(ctx.get_current_key(), 1)


class Case(Struct, frozen=True):
    """An operator, and the types of its inputs."""

    spec: plan.OperatorSpec
    types: Sequence[t.TypeInformation]


THREE = Case(CountInputsSpec(Counts(), plan.InputKeys(SELECTORS, t.LONG)), TYPES)
TWO = Case(plan.CoProcessSpec(CountBoth(), plan.TwoInputKeys(*SELECTORS[:2], t.LONG)), TYPES[:2])
CASES = {"three inputs": THREE, "two inputs": TWO}
