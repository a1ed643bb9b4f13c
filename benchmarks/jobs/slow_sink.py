"""A source at full speed in front of a sink that is far too slow: `python slow_sink.py`. Runs until interrupted."""

from __future__ import annotations

import time

from job import environment, execute
from marks import report

from millstream.core.records.batches import Batch
from millstream.datastream.connectors.base import Sink, SinkWriter
from millstream.datastream.functions import RuntimeContext

PAUSE = 50e-6  # seconds that a record takes
TEXT = "x" * 100


class SlowSink(Sink):
    """Sleeps for every record; counts the records and how often a key went backwards."""

    def create_writer(self, context: RuntimeContext) -> SinkWriter:
        return _SlowWriter()


class _SlowWriter(SinkWriter):
    def __init__(self) -> None:
        self._count = 0
        self._wrong = 0
        self._last: dict[tuple[int, int], int] = {}

    def write(self, batch: Batch) -> None:
        time.sleep(PAUSE * len(batch))
        for key, part, number, _ in batch.rows:  # type: ignore[union-attr]
            if self._last.get((key, part), -1) >= number:
                self._wrong += 1
            self._last[key, part] = number
        if not self._count:
            report("flowing")
        self._count += len(batch)

    def close(self) -> None:
        report("sink", count=self._count, wrong=self._wrong)


END = 10**12


def main() -> None:
    env = environment()
    (
        env.from_sequence(0, END - 1)
        .map(lambda x: (x % 500, x * 2 // END, x, TEXT + str(x)), output_type=tuple[int, int, int, str])
        .key_by(lambda record: record[0])
        .sink_to(SlowSink())
    )
    execute(env, "slow sink")


if __name__ == "__main__":
    main()
