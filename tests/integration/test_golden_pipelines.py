"""Each pipeline produces the result of a straightforward computation in plain Python.

At several parallelisms, in this process and in slot workers of their own.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from millstream.common import Configuration, Row, Time, Types
from millstream.datastream import (
    AsyncDataStream,
    AsyncFunction,
    DataStream,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    StreamExecutionEnvironment,
)

pytestmark = pytest.mark.slow

N = 5_000
TEXT = ["to be or not to be", "that is the question", "", "whether tis nobler in the mind"] * 50


@dataclass
class Reading:
    sensor: str
    value: float


def sums_by_key(env: StreamExecutionEnvironment) -> DataStream:
    pairs = env.from_sequence(1, N).map(lambda x: (x % 13, x))
    return pairs.key_by(lambda t: t[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))


def final_sums(results: list[Any]) -> dict[Any, Any]:
    best: dict[Any, Any] = {}
    for key, value in results:
        best[key] = max(value, best.get(key, value))
    return best


def straight_sums() -> dict[Any, Any]:
    sums: dict[int, int] = defaultdict(int)
    for x in range(1, N + 1):
        sums[x % 13] += x
    return dict(sums)


def words(env: StreamExecutionEnvironment) -> DataStream:
    lines = env.from_collection(TEXT, Types.STRING()).rebalance()
    pairs = lines.flat_map(str.split).map(lambda w: (w, 1), output_type=Types.TUPLE([Types.STRING(), Types.INT()]))
    return pairs.key_by(lambda t: t[0]).sum(1)


def typed(env: StreamExecutionEnvironment) -> DataStream:
    readings = env.from_sequence(1, N).map(lambda x: Reading(f"s{x % 5}", x / 2), output_type=Reading)
    return readings.key_by("sensor").max("value").map(lambda r: (r.sensor, r.value))


def rows(env: StreamExecutionEnvironment) -> DataStream:
    kind = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
    named = env.from_sequence(1, N).map(lambda x: Row(id=x, name=f"n{x % 3}"), output_type=kind)
    return named.key_by("name").filter(lambda r: r.id % 2 == 0).map(lambda r: (r.name, r.id))


def columns(env: StreamExecutionEnvironment) -> DataStream:
    def expand(batch: pa.RecordBatch) -> pa.RecordBatch:
        x = batch.column(0).to_numpy()
        return pa.record_batch({"k": x % 7, "x": x})

    def aggregate(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.groupby("k", as_index=False)["x"].sum()

    partial = env.from_sequence(1, N).map_batches(expand).key_by("k").map_batches(aggregate)
    return partial.map(lambda r: (int(r.k), int(r.x)))


def column_sums(results: list[Any]) -> dict[Any, Any]:
    sums: dict[int, int] = defaultdict(int)
    for key, value in results:
        sums[key] += value
    return dict(sums)


def straight_column_sums() -> dict[Any, Any]:
    x = np.arange(1, N + 1)
    return {k: int(x[x % 7 == k].sum()) for k in range(7)}


class Running(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        yield ctx.get_current_key(), value


def keyed_process(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_sequence(1, N).key_by(lambda x: f"k{x % 3}").process(Running())


EVEN = OutputTag("even", Types.LONG())


class Split(ProcessFunction):
    def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterator[Any]:
        if value % 2:
            yield value
        else:
            yield EVEN, value


def side_output(env: StreamExecutionEnvironment) -> DataStream:
    main = env.from_sequence(1, N).process(Split())
    return main.get_side_output(EVEN).map(lambda x: -x).union(main)


def broadcast(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_collection([1, 2, 3]).broadcast().map(lambda x: x).set_parallelism(3)


def partitioners(env: StreamExecutionEnvironment) -> DataStream:
    numbers = env.from_sequence(1, N)
    moved = numbers.shuffle().map(lambda x: x).rescale().map(lambda x: x).set_parallelism(2)
    custom = moved.partition_custom(lambda key, n: key % n, lambda x: x).map(lambda x: x).set_parallelism(3)
    return custom.global_().map(lambda x: x * 2)


def explosion(env: StreamExecutionEnvironment) -> DataStream:
    return (
        env.from_sequence(1, 20).flat_map(lambda x: range(x * 1000)).key_by(lambda x: x).filter(lambda x: x % 500 == 0)
    )


def big_records(env: StreamExecutionEnvironment) -> DataStream:
    return (
        env.from_sequence(1, 6).map(lambda x: (x, "x" * 700_000)).key_by(lambda t: t[0]).map(lambda t: len(t[1]) + t[0])
    )


class Asked(AsyncFunction[int, int]):
    """Every seventh result is slow, and every fifth is empty."""

    async def async_invoke(self, value: int) -> list[int]:
        for _ in range(20 if value % 7 == 0 else 1):
            await asyncio.sleep(0)
        return [] if value % 5 == 0 else [value, -value]


def asynchronous(env: StreamExecutionEnvironment) -> DataStream:
    numbers = env.from_sequence(1, N)
    ordered = AsyncDataStream.ordered_wait(numbers, Asked(), Time.seconds(0), 10, Types.LONG())
    once = ordered.filter(lambda x: x > 0)
    return AsyncDataStream.unordered_wait(once.key_by(lambda x: x), Asked(), Time.hours(1), 50, Types.LONG())


def as_counts(results: list[Any]) -> Counter[Any]:
    return Counter(results)


PIPELINES: dict[str, tuple[Callable[..., DataStream], Callable[[list[Any]], Any], Any]] = {
    "sums by key": (sums_by_key, final_sums, straight_sums()),
    "words": (words, final_sums, dict(Counter(" ".join(TEXT).split()))),
    "typed": (typed, final_sums, {f"s{k}": max(x / 2 for x in range(1, N + 1) if x % 5 == k) for k in range(5)}),
    "rows": (rows, as_counts, Counter((f"n{x % 3}", x) for x in range(2, N + 1, 2))),
    "columns": (columns, column_sums, straight_column_sums()),
    "keyed process": (keyed_process, as_counts, Counter((f"k{x % 3}", x) for x in range(1, N + 1))),
    "side output": (side_output, as_counts, Counter(x if x % 2 else -x for x in range(1, N + 1))),
    "broadcast": (broadcast, as_counts, Counter([1, 2, 3] * 3)),
    "partitioners": (partitioners, as_counts, Counter(2 * x for x in range(1, N + 1))),
    "explosion": (
        explosion,
        as_counts,
        Counter(y for x in range(1, 21) for y in range(x * 1000) if y % 500 == 0),
    ),
    "asynchronous": (asynchronous, as_counts, Counter(s * x for x in range(1, N + 1) if x % 5 for s in (1, -1))),
    "big records": (big_records, as_counts, Counter(700_000 + x for x in range(1, 7))),
}


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize(
    ("parallelism", "options"),
    [
        pytest.param(1, {"execution.local.in-process": "true"}, id="in process"),
        pytest.param(3, {"execution.local.in-process": "true"}, id="in process at 3"),
        pytest.param(2, {}, id="workers at 2", marks=pytest.mark.process),
        pytest.param(
            2,
            {"taskmanager.network.compression.codec": "LZ4", "taskmanager.memory.segment-size": "4 kb"},
            id="small compressed buffers",
            marks=pytest.mark.process,
        ),
    ],
)
def test_it_produces_the_result_of_a_straightforward_computation(
    name: str, parallelism: int, options: dict[str, str]
) -> None:
    build, summarise, expected = PIPELINES[name]
    env = StreamExecutionEnvironment.get_execution_environment(Configuration(options))
    env.set_parallelism(parallelism)
    assert summarise(list(build(env).execute_and_collect(name))) == expected
