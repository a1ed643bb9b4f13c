"""What the PyFlink jobs of the benchmarks have in common: two slots, PyFlink's faster settings, and their reports.

PyFlink's sinks are Java's, so the last step of a job is a flat map that keeps the last value of each key and emits
nothing.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

from marks import report
from pyflink.common import Configuration, WatermarkStrategy
from pyflink.common.typeinfo import Types
from pyflink.datastream import DataStream, FlatMapFunction, MapFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource

SLOTS = 2
STATE_CACHE = 1_000_000  # values that a Python process of PyFlink caches, instead of requesting each from Java


def environment(mode: str) -> StreamExecutionEnvironment:
    """An environment with parallelism 2, whose Python runs in Java's threads (`thread`) or beside it (`process`)."""
    # The interpreter that Java embeds in thread mode does not use the virtual environment, nor this folder.
    os.environ["PYTHONPATH"] = os.pathsep.join([sysconfig.get_path("purelib"), str(Path(__file__).parent)])
    report("version", flink=version("apache-flink"))
    configuration = Configuration()
    configuration.set_string("python.execution-mode", mode)
    configuration.set_string("python.executable", sys.executable)
    configuration.set_string("python.client.executable", sys.executable)
    configuration.set_string("python.state.cache-size", str(STATE_CACHE))
    configuration.set_string("pipeline.object-reuse", "true")
    return StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(SLOTS)


def numbers(env: StreamExecutionEnvironment, records: int) -> DataStream:
    """Returns a stream of the numbers from 0, half of them from each of two readers."""
    source = NumberSequenceSource(0, records - 1)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())


class ToPair(MapFunction):
    """Creates the pair, and reports the arrival of the first record."""

    def __init__(self, pair: Callable[[int], tuple[int, int]]) -> None:
        self._pair = pair

    def open(self, runtime_context: RuntimeContext) -> None:
        self._first: int | None = None

    def map(self, value: int) -> tuple[int, int]:
        if self._first is None:
            self._first = time.monotonic_ns()
        return self._pair(value)

    def close(self) -> None:
        report("source", first=self._first)


class LastOfEachKey(FlatMapFunction):
    """Keeps only the last value of each key and a count, to check the result."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._values: dict[int, int] = {}
        self._count = 0
        self._last = 0

    def flat_map(self, value: tuple[int, int]) -> Iterator[int]:
        self._values[value[0]] = value[1]
        self._count += 1
        self._last = time.monotonic_ns()
        yield from ()

    def close(self) -> None:
        report("sink", last=self._last, count=self._count, values=self._values)
