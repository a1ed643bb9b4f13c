"""`interval_join_operator.py ROWS KEYS`: so many rows in all, of two streams that have a row each every 2 ms.

Each row of the first finds about one partner, whatever the number of keys. Reports how many rows were kept at the most.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from typing import Any

from marks import report
from operator_run import seconds_of

from millstream.common import Watermark
from millstream.core.jobs.plan.join_plan import IntervalJoinSpec
from millstream.core.jobs.plan.plan import KeySelector, TwoInputKeys
from millstream.core.records.batches import RowBatch, StreamSignal
from millstream.core.records.types import LONG, ListType, TupleType, from_hint
from millstream.core.snapshot.metadata.model import StateKind
from millstream.datastream import ProcessJoinFunction
from millstream.taskmanager.testing import OperatorHarness
from millstream.taskmanager.worker.state.heap import HeapKeyedStateBackend

BATCH = 2048
STEP = 2  # ms from one row of a stream to the next
RECORD = from_hint(tuple[int, int])
KEPT = ListType(TupleType((LONG, RECORD), ("timestamp", "record")))


class Add(ProcessJoinFunction):
    """Rows are `(key, value)`."""

    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterator[Any]:
        """Emits one result for each pair."""
        yield left[0], left[1] + right[1]


def elements(rows: int, keys: int, chance: random.Random) -> Iterator[tuple[int, RowBatch | StreamSignal]]:
    """Batches of both streams alternately, with a watermark after each two."""
    for start in range(0, rows // 2, BATCH):
        numbers = range(start, min(start + BATCH, rows // 2))
        for side in (0, 1):
            batch = [(chance.randrange(keys), number) for number in numbers]
            yield side, RowBatch(batch, [number * STEP for number in numbers])
        yield 0, Watermark(numbers[-1] * STEP)


def expected(fed: list[tuple[int, Any]], reach: int) -> int:
    """Returns the number of pairs, by counting them."""
    pairs, times = 0, [dict[int, list[int]](), dict[int, list[int]]()]
    for side, element in fed:
        if isinstance(element, RowBatch):
            for (key, _), time in zip(element.rows, element.timestamps or (), strict=True):
                times[side].setdefault(key, []).append(time)
    for key, left in times[0].items():
        right, first = times[1].get(key, []), 0
        for time in left:
            while first < len(right) and right[first] < time - reach:
                first += 1
            last = first
            while last < len(right) and right[last] <= time + reach:
                last += 1
            pairs += last - first
    return pairs


def main(rows: int, keys: int) -> None:
    """Processes the input in ten parts, and checks after each the number of rows in the state."""
    reach = keys * STEP // 2
    selector = KeySelector(fields=(0,))
    spec = IntervalJoinSpec(Add(), TwoInputKeys(selector, selector, from_hint(int)), -reach, reach)
    backend = HeapKeyedStateBackend("join", from_hint(int))
    harness = OperatorHarness(spec, RECORD, RECORD, keyed_backend=backend).open()
    fed = list(elements(rows, keys, random.Random(7)))
    seconds, results, kept = 0.0, 0, 0
    part = -(-len(fed) // 30) * 3
    for start in range(0, len(fed), part):
        took, emitted = seconds_of(harness, fed[start : start + part])
        seconds, results = seconds + took, results + emitted
        kept = max(kept, sum(_kept(backend, name) for name in ("left-records", "right-records")))
    report("join", seconds=seconds, results=results, expected=expected(fed, reach), kept=kept, needed=2 * reach // STEP)


def _kept(backend: HeapKeyedStateBackend, name: str) -> int:
    table = backend.table(name, KEPT, StateKind.VALUE)
    return sum(map(len, table.get_all(backend.entries(name))))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
