"""Counts in keyed state, at full speed until interrupted: `python keyed_state_job.py KEYS HOT_GROUPS KEY=VALUE ...`.

First every key once, then all of them over and over; with HOT_GROUPS, only those of so many key groups. The function
reports every checkpoint, and the sink the arrival of batches.
"""

from __future__ import annotations

import os
import sys
import time
from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from job import SLOTS, environment, execute
from marks import report, report_samples, resident_megabytes

from millstream.core.keys.key_groups import stable_hash_column
from millstream.core.records.batches import Batch, RowBatch
from millstream.datastream import KeyedProcessFunction, RuntimeContext
from millstream.datastream.connectors.base import Sink, SinkWriter, SourceReaderContext
from millstream.datastream.connectors.index_split import IndexReader
from millstream.datastream.connectors.number_sequence import NumberSequenceSource
from millstream.datastream.functions.checkpointed import CheckpointedFunction

MAX_PARALLELISM = 200
_ROUNDS = 10**6
_STRIDE = 7919  # neighbours in the stream are not neighbours in memory; no size in use is a multiple of it


class Keys(NumberSequenceSource):
    """Each of two readers begins with one half of the keys."""

    def __init__(self, keys: int, hot_groups: int) -> None:
        super().__init__(0, SLOTS * keys * _ROUNDS - 1)
        self._keys, self._hot_groups = keys, hot_groups

    def create_reader(self, context: SourceReaderContext) -> IndexReader:
        return _KeyReader(context, self._keys, self._hot_groups)


class _KeyReader(IndexReader):
    def __init__(self, context: SourceReaderContext, keys: int, hot_groups: int) -> None:
        super().__init__(context)
        self._keys = keys
        self._hot: np.ndarray[Any, Any] | None = None
        if hot_groups:
            every = np.arange(keys)
            groups = stable_hash_column(pa.array(every)) % np.uint64(MAX_PARALLELISM)
            spread = np.arange(hot_groups) * MAX_PARALLELISM // hot_groups  # so that each slot has some
            self._hot = every[np.isin(groups, spread.astype(np.uint64))]

    def make(self, indices: range) -> RowBatch:
        part, first = divmod(indices.start, self._keys * _ROUNDS)
        numbers = np.arange(first, first + len(indices))
        if self._hot is not None and first >= self._keys // SLOTS:
            return RowBatch(self._hot[numbers % len(self._hot)].tolist())
        return RowBatch(((numbers + part * (self._keys // SLOTS)) * _STRIDE % self._keys).tolist())


class Counting(KeyedProcessFunction, CheckpointedFunction):
    """Counts each key, beside another number."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._state = runtime_context.get_state("count", tuple[int, int])

    def initialize_state(self, context: Any) -> None:
        self._new = 0
        self._snapshots: dict[int, tuple[int, int]] = {}

    def process_element(self, value: int, ctx: Any) -> Iterator[int]:
        count = self._state.value()
        if count is None:
            self._new += 1
            count = (0, value)
        self._state.update((count[0] + 1, value))
        yield value

    def snapshot_state(self, context: Any) -> None:
        self._snapshots[context.get_checkpoint_id()] = (time.monotonic_ns(), self._new)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        began, keys = self._snapshots.pop(checkpoint_id)
        report(
            "checkpoint", checkpoint=checkpoint_id, began=began, ended=time.monotonic_ns(), keys=keys,
            memory=resident_megabytes(),
        )  # fmt: skip


class Beats(Sink):
    """Records when batches arrive, and how large they are."""

    def create_writer(self, context: RuntimeContext) -> SinkWriter:
        return _BeatWriter(context.get_attempt_number())


class _BeatWriter(SinkWriter):
    def __init__(self, attempt: int) -> None:
        self._attempt = attempt
        self._moments = array("q")
        self._counts = array("q")

    def write(self, batch: Batch) -> None:
        if not self._moments:
            report("flowing", moment=time.monotonic_ns(), attempt=self._attempt, memory=resident_megabytes())
        self._moments.append(time.monotonic_ns())
        self._counts.append(len(batch))

    def close(self) -> None:
        report_samples("beats", self._moments, self._counts, [os.getpid()] * len(self._moments))


def main(keys: int, hot_groups: int, options: dict[str, str]) -> None:
    env = environment(options).set_max_parallelism(MAX_PARALLELISM)
    env.from_source(Keys(keys, hot_groups)).key_by(lambda key: key).process(Counting(), int).sink_to(Beats())
    execute(env, "keyed state")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), dict(option.split("=", 1) for option in sys.argv[3:]))
