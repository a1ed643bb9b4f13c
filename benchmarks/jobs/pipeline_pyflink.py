"""The same pipeline on PyFlink, thread mode, parallelism 2: `python pipeline_pyflink.py RECORDS`.

PyFlink's sinks are Java's, so the last step is a map that keeps the last value of each key and lets nothing through.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from marks import report
from pyflink.common import Configuration, Types
from pyflink.common.watermark_strategy import WatermarkStrategy
from pyflink.datastream import FlatMapFunction, MapFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource


class ToPair(MapFunction):
    """Makes the pair, telling when the first record comes."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._first: int | None = None

    def map(self, value: int) -> tuple[int, int]:
        if self._first is None:
            self._first = time.monotonic_ns()
        return value % 500, value

    def close(self) -> None:
        report("source", first=self._first)


class LastOfEachKey(FlatMapFunction):
    """Keeps only the last value of each key and a count, to check the result by."""

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


def main(records: int) -> None:
    # The interpreter that Java embeds in thread mode knows nothing of a virtual environment, nor of this folder.
    os.environ["PYTHONPATH"] = os.pathsep.join([sysconfig.get_path("purelib"), str(Path(__file__).parent)])
    report("version", flink=version("apache-flink"))
    configuration = Configuration()
    configuration.set_string("python.execution-mode", "thread")
    configuration.set_string("python.executable", sys.executable)
    configuration.set_string("python.client.executable", sys.executable)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    pair = Types.TUPLE([Types.LONG(), Types.LONG()])
    (
        env.from_source(
            NumberSequenceSource(0, records - 1), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
        )
        .map(ToPair(), output_type=pair)
        .key_by(lambda value: value[0], key_type=Types.LONG())
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
        .filter(lambda value: value[1] % 2 == 0)
        .flat_map(LastOfEachKey(), output_type=Types.LONG())
        .print()
    )
    env.execute("python pipeline")


if __name__ == "__main__":
    main(int(sys.argv[1]))
