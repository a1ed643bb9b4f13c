"""The same on PyFlink: `python window_pyflink.py RECORDS KEYS WINDOWS thread|process`."""

from __future__ import annotations

import sys

from pyflink.common import Time, WatermarkStrategy
from pyflink.common.typeinfo import Types
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream.window import TumblingEventTimeWindows
from pyflink_job import LastOfEachKey, ToPair, environment, numbers


class EventTime(TimestampAssigner):
    """As each reader reads half of the numbers, at the same event time as the other."""

    def __init__(self, half: int) -> None:
        self._half = half

    def extract_timestamp(self, value: int, record_timestamp: int) -> int:
        return value % self._half


def main(records: int, keys: int, windows: int, mode: str) -> None:
    half = records // 2
    env = environment(mode)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(EventTime(half))
    (
        numbers(env, records)
        .assign_timestamps_and_watermarks(strategy)
        .map(ToPair(lambda x: (x * 7919 % keys, 1)), output_type=Types.TUPLE([Types.LONG(), Types.LONG()]))
        .key_by(lambda pair: pair[0], key_type=Types.LONG())
        .window(TumblingEventTimeWindows.of(Time.milliseconds(half // windows)))
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
        .flat_map(LastOfEachKey(), output_type=Types.LONG())
        .print()
    )
    env.execute("windows over rows")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]), sys.argv[4])
