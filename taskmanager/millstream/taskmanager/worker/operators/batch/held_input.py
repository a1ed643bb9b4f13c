"""Wraps an operator that in batch mode gets its records in another order than they arrive: its input is held back.

The records of an input are kept until all inputs have ended, then passed to the operator key by key, for each key in
the order of their timestamps. After its last record a key ends, and its state is removed. Inputs that need no order
pass at once: so a broadcast stream has been read before the first record of the other stream. Event time stands still
meanwhile, and ends with the last record. Held records are in no snapshot, so checkpoints are declined until then.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, assert_never

from millstream.core.errors import MillstreamError
from millstream.core.jobs.plan.plan import BatchInput, ChainedOperator
from millstream.core.jobs.progress import AwaitingEnd, OperatorProgress
from millstream.core.keys.key_groups import stable_hash
from millstream.core.keys.key_values import hashable, without_nan
from millstream.core.records.batches import (
    LAST_WATERMARK,
    MIN_TIMESTAMP,
    TIMESTAMP,
    Barrier,
    Batch,
    RowBatch,
    StreamSignal,
    Watermark,
    WatermarkStatus,
)
from millstream.taskmanager.worker.interruption import TaskInterrupted
from millstream.taskmanager.worker.operators.base import KeyOf, Operator
from millstream.taskmanager.worker.operators.batch.gathered_output import GatheredOutput
from millstream.taskmanager.worker.operators.batch.sorted_records import Place, SortedRecords
from millstream.taskmanager.worker.operators.forwarding import ForwardingOperator
from millstream.taskmanager.worker.operators.output import Emit
from millstream.taskmanager.worker.operators.registry import build_operator
from millstream.taskmanager.worker.operators.setup import OperatorSetup
from millstream.taskmanager.worker.partitioning import key_function


def in_order(setup: OperatorSetup, chained: ChainedOperator) -> Operator:
    """Wraps the operator of a chain, if it needs its input in order in batch mode."""
    match chained.batch_input:
        case BatchInput.AS_IT_COMES:
            return build_operator(setup, chained.spec)
        case BatchInput.KEY_BY_KEY:
            return HeldInput(setup, chained, [key_function(selector) for selector in chained.spec.keyed_by()])
        case BatchInput.SECOND_FIRST:
            return HeldInput(setup, chained, [None])
        case _:
            assert_never(chained.batch_input)


class HeldInput(ForwardingOperator):
    """Wraps an operator that has inputs; its first inputs are held."""

    def __init__(self, setup: OperatorSetup, chained: ChainedOperator, keys: Sequence[KeyOf | None]) -> None:
        main = GatheredOutput(setup.output)
        side = {tag: GatheredOutput(output) for tag, output in setup.side_outputs.items()}
        self._gathered = [main, *side.values()]
        setup.output, setup.side_outputs = main, dict(side)
        super().__init__(setup, build_operator(setup, chained.spec))
        self._receivers = self.inner.receivers()
        self._keys = keys
        self._held = SortedRecords()
        self._numbers = itertools.count()
        self._sorted: Iterator[Place] | None = None
        self._key: tuple[int, int] | None = None
        self._is_over = False  # event time has ended
        self._is_released = False

    # Records

    def receivers(self) -> Sequence[Emit]:
        """The operator's receivers, except for the inputs that are held."""
        held = [partial(self._hold, number, key_of) for number, key_of in enumerate(self._keys)]
        return [*held, *[partial(self._pass, receiver) for receiver in self._receivers[len(held) :]]]

    def process(self, batch: Batch) -> None:
        """Takes a batch of the first input as its receiver does."""
        self.receivers()[0](batch)

    def _pass(self, receiver: Emit, batch: Batch) -> None:
        receiver(batch)
        self._flush()

    def _hold(self, input_index: int, key_of: KeyOf | None, batch: Batch) -> None:
        rows = batch.records(self.input_types[input_index])
        times = batch.row_times()
        lane = 2 * input_index + (times is not None)
        stamps: Iterable[int] = itertools.repeat(MIN_TIMESTAMP, len(rows)) if times is None else times
        places = zip(self._places_of(rows, key_of), stamps, self._numbers, rows, strict=False)
        self._held.add([Place(*hashes, time, number, lane, row) for hashes, time, number, row in places])

    def _places_of(self, rows: list[Any], key_of: KeyOf | None) -> Iterable[tuple[int, int]]:
        """The sort positions of the records by key; without keys, in order of arrival."""
        if key_of is None:
            return zip(itertools.repeat(0, len(rows)), itertools.count(self._held.count), strict=False)
        source = iter(rows)
        try:
            keys = [without_nan(hashable(key_of(row))) for row in source]
            return [(stable_hash(key), hash(key)) for key in keys]
        except TaskInterrupted:
            raise
        except BaseException as error:
            raise self.failed(error, rows, source, key_of) from error

    @property
    def holds_back(self) -> bool:
        """True until all records were released."""
        return not self._is_released

    @property
    def is_settled(self) -> bool:
        """True once all records were released, and the operator waits for no results."""
        return self._is_released and self.inner.is_settled

    def release(self, rows: int) -> None:
        """Passes the next records to the operator; after the last, event time ends."""
        if self._sorted is None:
            self._sorted = self._held.read()
        taken = list(itertools.islice(self._sorted, rows))
        last = taken[-1].key if taken else None
        ends_keys = self.inner.ends_keys

        def part_of(place: Place) -> tuple[Any, int]:
            """Groups what is passed to the operator together: records of one stream, and of one key if its end matters.

            The last key is passed separately in any case: the others have no more records, so their state can be
            removed.
            """
            return place.key if ends_keys else place.key == last, place.lane

        for (_, lane), places in itertools.groupby(taken, part_of):
            self._take(lane, list(places))
        self._flush()
        if len(taken) < rows:
            self._end()

    def _take(self, lane: int, places: list[Place]) -> None:
        if places[0].key != self._key:
            self._end_key()
        self._key = places[-1].key
        times = array(TIMESTAMP, [place.timestamp for place in places]) if lane % 2 else None
        self._receivers[lane // 2](RowBatch([place.record for place in places], times))

    def _end_key(self) -> None:
        if self._key is not None:
            self.inner.end_key()
            if self.keyed_state is not None:
                self.keyed_state.forget_all()
            for output in self._gathered:
                output.next_key()

    def _flush(self) -> None:
        for output in self._gathered:
            output.flush()

    def _end(self) -> None:
        self._end_key()
        self._flush()
        self._is_released = True
        self._held.close()
        if self._is_over:
            self.inner.on_signal(LAST_WATERMARK)

    def on_signal(self, signal: StreamSignal, input_index: int = 0) -> None:
        """Holds event time back until the end."""
        match signal:
            case Watermark():
                self._is_over = self._is_over or signal == LAST_WATERMARK
            case WatermarkStatus():
                pass
            case _:
                self.inner.on_signal(signal, input_index)

    def progress(self) -> OperatorProgress | None:
        """The number of held records, until they are released."""
        return OperatorProgress(self.name, AwaitingEnd(self._held.count)) if self._sorted is None else None

    # Time and mails

    def on_time(self, now: float) -> float | None:
        """Time passes for the operator, unless it ends keys: processing time then passes at the end of each."""
        if self.inner.ends_keys:
            return None
        due = self.inner.on_time(now)
        self._flush()
        return due

    def on_mail(self, mail: Any) -> Any:
        """Delivers a mail to the operator."""
        result = self.inner.on_mail(mail)
        self._flush()
        return result

    # Life

    def finish(self) -> None:
        """Finishes the operator, and sends what it still emits."""
        self.inner.finish()
        self._flush()

    def prepare_snapshot(self, barrier: Barrier) -> None:
        """Declines the checkpoint while records are held, which would be lost."""
        if not self._is_released:
            raise MillstreamError(f"'{self.name}': a job in batch mode takes no checkpoints and no savepoints")
        self.inner.prepare_snapshot(barrier)
        self._flush()

    def close(self) -> None:
        """Closes the operator, and drops the held records."""
        try:
            self.inner.close()
        finally:
            self._held.close()
