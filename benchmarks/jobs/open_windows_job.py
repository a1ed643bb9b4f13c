"""Windows that stay open, at full speed until interrupted: `python open_windows_job.py KEYS 0 KEY=VALUE ...`.

First every key once, which opens its window, then all of them over and over. The functions report every checkpoint,
and of the pauses between two records of a slot worker.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import Any

from job import environment, execute
from keyed_state_job import MAX_PARALLELISM, Beats, Keys
from marks import report
from window_beats import BEATS

from millstream.common import Duration, WatermarkStrategy
from millstream.datastream import AggregateFunction, ProcessWindowFunction
from millstream.datastream.functions.checkpointed import CheckpointedFunction
from millstream.datastream.window import TumblingEventTimeWindows

DAY = 24 * 3600 * 1000


class Counting(AggregateFunction):
    """Counts records, and keeps the last of them."""

    def create_accumulator(self) -> tuple[int, int]:
        BEATS.opened()
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        BEATS.beat()
        return accumulator[0] + 1, value

    def get_result(self, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator

    def merge(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        return a[0] + b[0], b[1]


class Reporting(ProcessWindowFunction, CheckpointedFunction):
    """Reports checkpoints."""

    def initialize_state(self, context: Any) -> None:
        self._snapshots: dict[int, tuple[int, int]] = {}

    def snapshot_state(self, context: Any) -> None:
        self._snapshots[context.get_checkpoint_id()] = (time.monotonic_ns(), BEATS.windows)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        began, windows = self._snapshots.pop(checkpoint_id)
        report("checkpoint", checkpoint=checkpoint_id, began=began, ended=time.monotonic_ns(), keys=windows)

    def process(self, key: int, context: Any, elements: Iterable[tuple[int, int]]) -> Iterable[int]:
        yield next(iter(elements))[0]

    def close(self) -> None:
        BEATS.end()


def main(keys: int, options: dict[str, str]) -> None:
    env = environment(options).set_max_parallelism(MAX_PARALLELISM)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda key, _: key)
    (
        env.from_source(Keys(keys, 0), strategy)
        .key_by(lambda key: key)
        .window(TumblingEventTimeWindows.of(Duration.of_millis(DAY)))
        .aggregate(Counting(), Reporting(), accumulator_type=tuple[int, int], output_type=int)
        .sink_to(Beats())
    )
    execute(env, "open windows")


if __name__ == "__main__":
    main(int(sys.argv[1]), dict(option.split("=", 1) for option in sys.argv[3:]))
