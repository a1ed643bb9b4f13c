"""`spark_restore.py KEYS [SAVEPOINT]`: a job that looks some keys up in the state that Spark wrote, or in none."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

from job import environment, execute
from marks import report
from spark_history import value_of

from millstream.core.records.batches import Batch
from millstream.datastream import KeyedProcessFunction, RuntimeContext
from millstream.datastream.connectors.base import Sink, SinkWriter

MAX_PARALLELISM = 128
LOOKED_UP = 1000


class Looking(KeyedProcessFunction):
    """Counts the keys that have the expected value."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._state = runtime_context.get_state("counts", int)

    def process_element(self, value: int, ctx: Any) -> Iterator[bool]:
        yield self._state.value() == value_of(value)


class Found(Sink):
    """Reports the arrival of records, and at the end the number of correct ones."""

    def create_writer(self, context: RuntimeContext) -> SinkWriter:
        return _FoundWriter()


class _FoundWriter(SinkWriter):
    def __init__(self) -> None:
        self._seen = self._right = 0

    def write(self, batch: Batch) -> None:
        if not self._seen:
            report("flowing", moment=time.monotonic_ns())
        self._seen += len(batch)
        self._right += sum(batch.rows)  # type: ignore[union-attr]

    def close(self) -> None:
        report("right", count=self._right)


def main(keys: int, savepoint: str | None = None) -> None:
    env = environment({} if savepoint is None else {"execution.state-recovery.path": savepoint})
    env.set_max_parallelism(MAX_PARALLELISM)
    looked_up = env.from_collection(list(range(0, keys, max(1, keys // LOOKED_UP))), int)
    found = looked_up.key_by(lambda key: key, key_type=int).process(Looking(), bool).uid("counter")
    found.sink_to(Found())
    execute(env, "restore")


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
