"""Records at a rate through a shuffle: `python shuffle_latency_job.py RATE SECONDS [BUFFER_TIMEOUT]`."""

from __future__ import annotations

import os
import sys
import time

from job import SLOTS, environment, execute
from latencies import LatencySink

from millstream.datastream.connectors.datagen import DataGeneratorSource

KEYS = 500


class Stamp:
    """`(key, moment in ns, process id)`, the moment being when the record is due at this rate.

    If the source is delayed, its records are late but their moments are not, so the delay counts as latency.
    """

    def __init__(self, per_second: float) -> None:
        self._interval = 1e9 / per_second
        self._first = -1
        self._origin = 0
        self._pid = 0

    def __call__(self, index: int) -> tuple[int, int, int]:
        if self._first < 0:
            self._first, self._origin, self._pid = index, time.monotonic_ns(), os.getpid()
        return index % KEYS, self._origin + int((index - self._first) * self._interval), self._pid


def main(rate: int, seconds: float, buffer_timeout: str | None) -> None:
    env = environment({} if buffer_timeout is None else {"execution.buffer-timeout.interval": buffer_timeout})
    source = DataGeneratorSource(Stamp(rate / SLOTS), int(rate * seconds), rate, tuple[int, int, int])
    env.from_source(source).key_by(lambda record: record[0]).process(lambda record, _: (record,)).sink_to(LatencySink())
    execute(env, "shuffle latency")


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None)
