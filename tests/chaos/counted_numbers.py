"""A job whose committed output shows whether each record had its effect once: numbers, counted by key in keyed state.

It never ends by itself. After it was drained and stopped, its files contain what the savepoint counts, and nothing
else.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pyarrow.parquet as pq

KEYS = 31
BODY = """
import sys
from millstream.common import Types
from millstream.datastream import KeyedProcessFunction
from millstream.datastream.connectors.datagen import DataGeneratorSource
from millstream.datastream.connectors.file_system import FileSink, RollingPolicy
from millstream.datastream.state import ValueStateDescriptor

class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield (ctx.get_current_key(), count, value)

source = DataGeneratorSource(lambda index: index, None, {rate}, Types.LONG())
numbers = env.from_source(source, None, "numbers").uid("numbers")
counted = numbers.key_by(lambda x: x % {keys}, Types.LONG()).process(Count()).uid("count")
counted.sink_to(FileSink.for_json_lines(sys.argv[1]).with_rolling_policy(RollingPolicy.{policy})).uid("files")
env.execute(sys.argv[2])
"""
"""Takes a folder for its output and its own name."""


def body(rate: int, policy: str) -> str:
    """The script, with so many records a second."""
    return BODY.format(rate=rate, keys=KEYS, policy=policy)


def counted(savepoints: Path) -> dict[int, int]:
    """How many records of each key the job has counted, by its own state."""
    rows = [row for file in savepoints.rglob("count/count/*.parquet") for row in pq.read_table(file).to_pylist()]
    return {row["key"]: row["value"] for row in rows}


def check(output: Path, expected: dict[int, int], lanes: int, hint: str) -> None:
    """The committed files are those of a run without failures over a prefix of the numbers.

    `lanes` is the parallelism of the job, and `hint` is added to every failure.
    """
    counts: dict[int, list[int]] = defaultdict(list)
    seen: list[int] = []
    for file in output.rglob("*"):
        if file.name.endswith(".savepoint"):
            continue  # a savepoint that was taken before the job failed may contain it: it must not be removed
        assert not file.name.startswith("."), f"{file} is left of a dead attempt, {hint}"
        for line in file.read_text().splitlines() if file.is_file() else ():
            key, count, value = json.loads(line)
            assert key == value % KEYS, f"{line} in {file}, {hint}"
            counts[key].append(count)
            seen.append(value)
    for lane in range(lanes):
        numbers = sorted(value for value in seen if value % lanes == lane)
        assert numbers == list(range(lane, numbers[-1] + 1, lanes)), f"lane {lane} has lost or doubled numbers, {hint}"
    assert counts.keys() == expected.keys(), hint
    for key, found in counts.items():
        assert sorted(found) == list(range(1, expected[key] + 1)), f"key {key} was counted wrongly, {hint}"
