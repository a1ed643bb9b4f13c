"""The same pipeline on Bytewax: `python -m bytewax.run 'pipeline_bytewax:pipeline(RECORDS)' -i I -a ADDRESSES`."""

from __future__ import annotations

import itertools
import time

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from marks import report

BATCH = 2048


class _Numbers(StatelessSourcePartition[int]):
    def __init__(self, numbers: range) -> None:
        self._numbers = iter(numbers)
        self._first: int | None = None

    def next_batch(self) -> list[int]:
        if self._first is None:
            self._first = time.monotonic_ns()
        batch = list(itertools.islice(self._numbers, BATCH))
        if not batch:
            raise StopIteration
        return batch

    def close(self) -> None:
        report("source", first=self._first)


class Numbers(DynamicSource[int]):
    """The number sequence, an equal contiguous part for each worker."""

    def __init__(self, records: int) -> None:
        self._records = records

    def build(self, step_id: str, worker_index: int, worker_count: int) -> _Numbers:
        bounds = [self._records * i // worker_count for i in (worker_index, worker_index + 1)]
        return _Numbers(range(*bounds))


class _LastWriter(StatelessSinkPartition[tuple[str, int]]):
    def __init__(self) -> None:
        self._values: dict[str, int] = {}
        self._count = 0
        self._last = 0

    def write_batch(self, items: list[tuple[str, int]]) -> None:
        self._values.update(items)
        self._count += len(items)
        self._last = time.monotonic_ns()

    def close(self) -> None:
        report("sink", last=self._last, count=self._count, values=self._values)


class LastOfEachKey(DynamicSink[tuple[str, int]]):
    """Keeps only the last value of each key and a count, to check the result."""

    def build(self, step_id: str, worker_index: int, worker_count: int) -> _LastWriter:
        return _LastWriter()


def add(total: int | None, value: int) -> tuple[int, int]:
    """Returns the new sum as the state and as the output."""
    total = value if total is None else total + value
    return total, total


def pipeline(records: int) -> Dataflow:
    flow = Dataflow("python_pipeline")
    numbers = op.input("numbers", flow, Numbers(records))
    pairs = op.map("pair", numbers, lambda x: (str(x % 500), x))
    sums = op.stateful_map("sum", pairs, add)
    even = op.filter("even", sums, lambda pair: pair[1] % 2 == 0)
    op.output("last", even, LastOfEachKey())
    return flow
