"""Counts by key in tumbling windows on Millstream: `python window_millstream.py RECORDS KEYS WINDOWS`."""

from __future__ import annotations

import sys

from job import environment, execute
from pipeline_millstream import LastOfEachKey, TimedNumbers

from millstream.common import Duration, WatermarkStrategy
from millstream.datastream.window import TumblingEventTimeWindows


def main(records: int, keys: int, windows: int) -> None:
    half = records // 2  # what each of the two sources reads, at the same event time as the other
    env = environment()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda x, _: x % half)
    (
        env.from_source(TimedNumbers(0, records - 1), strategy)
        .map(lambda x: (x * 7919 % keys, 1), output_type=tuple[int, int])
        .key_by(lambda pair: pair[0])
        .window(TumblingEventTimeWindows.of(Duration.of_millis(half // windows)))
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
        .sink_to(LastOfEachKey())
    )
    execute(env, "windows over rows")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
