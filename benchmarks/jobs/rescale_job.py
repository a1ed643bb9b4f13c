"""Counts by key at a fixed rate, and records when each count was emitted: `rescale_job.py FOLDER RATE`."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from millstream.datastream import RuntimeContext, StreamExecutionEnvironment
from millstream.datastream.connectors.datagen import DataGeneratorSource
from millstream.datastream.functions import MapFunction

KEYS = 50


class WriteDown(MapFunction):
    """Writes a line for each count: the moment, the key and the count."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def open(self, runtime_context: RuntimeContext) -> None:
        name = f"{os.getpid()}-{runtime_context.get_index_of_this_subtask()}-{time.monotonic_ns()}.txt"
        self._file = (Path(self._folder) / name).open("w", buffering=1)

    def map(self, value: tuple[int, int]) -> int:
        self._file.write(f"{time.monotonic_ns()} {value[0]} {value[1]}\n")
        return value[1]


def main() -> None:
    folder, rate = sys.argv[1], float(sys.argv[2])
    env = StreamExecutionEnvironment.get_execution_environment()
    numbers = env.from_source(DataGeneratorSource(int, rate_per_second=rate), None, "numbers")
    counts = numbers.map(lambda n: (n % KEYS, 1)).key_by(lambda pair: pair[0])
    summed = counts.reduce(lambda one, other: (one[0], one[1] + other[1]))
    summed.map(WriteDown(folder)).filter(lambda _: False).print()
    env.execute("rescaled")


if __name__ == "__main__":
    main()
