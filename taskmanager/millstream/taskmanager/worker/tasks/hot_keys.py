"""Which keys are the most frequent at a keyed input: a space-saving sketch over a sample. Owned by the worker's loop.

Every 16th record is sampled, and fewer at high rates, so that the number of samples per second is bounded: the cost is
well below 1 % of a job that does next to nothing with its records. The sketch holds few keys. A key that is not in it
replaces the rarest and inherits its count: a count is never too low, and a key whose share is above average is always
in the sketch (Metwally et al., 2005). Counts decay, so that recent records weigh most.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from millstream.core.jobs.plan import plan
from millstream.core.logs.printable import printable
from millstream.core.logs.tracebacks import one_line
from millstream.core.records.batches import Batch
from millstream.core.records.types import TypeInformation
from millstream.datastream.functions import Function
from millstream.taskmanager.worker.interruption import TaskInterrupted
from millstream.taskmanager.worker.partitioning import key_function

log = logging.getLogger(__name__)
STRIDE = 16  # records per sample, on average, at low rates
COLUMN_STRIDE = 16_384  # sampling a row of columns is far more expensive
ROUND = 256  # samples after which the stride is adjusted
SHORTEST = 0.25  # seconds; if a round is shorter, fewer records are sampled
PLACES = 32
SHOWN = 10
_FADE_AT = 8_192  # samples
_LONGEST = 120  # characters of a key that are shown


class SpaceSaving:
    """The most frequent of many items. Pure."""

    __slots__ = ("_places", "counts", "total")

    def __init__(self, places: int = PLACES) -> None:
        self._places = places
        self.counts: dict[Any, float] = {}
        self.total = 0.0
        """The sum of all counts, decayed as they are."""

    def add(self, items: Iterable[Any]) -> None:
        """Counts items."""
        counts = self.counts
        for item, times in Counter(items).items():
            self.total += times
            if item in counts:
                counts[item] += times
            elif len(counts) < self._places:
                counts[item] = times
            else:
                rarest = min(counts, key=counts.__getitem__)
                counts[item] = counts.pop(rarest) + times

    def fade(self) -> None:
        """Halves all counts."""
        self.counts = {item: count / 2 for item, count in self.counts.items()}
        self.total /= 2

    def top(self, most: int) -> list[tuple[Any, float]]:
        """The `most` most frequent items, in descending order."""
        return sorted(self.counts.items(), key=lambda entry: entry[1], reverse=True)[:most]


class KeySketch:
    """The hot keys of one input of a task; disabled if the key of a record cannot be determined."""

    __slots__ = ("_clock", "_coarser", "_key_of", "_next", "_random", "_round", "_since", "_sketch", "_type")

    def __init__(
        self,
        key_of: Callable[[Any], Any],
        record_type: TypeInformation,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._key_of: Callable[[Any], Any] | None = key_of
        self._type = record_type
        self._clock = clock
        self._random = Random(0)
        self._next = 0  # rows until the one to sample
        self._coarser = 1  # multiple of the smallest stride
        self._round = 0  # samples
        self._since = clock()
        self._sketch = SpaceSaving()

    def look(self, batch: Batch) -> None:
        """Samples a batch."""
        at, rows = self._next, len(batch)
        if at >= rows or self._key_of is None:
            self._next = at - rows
            return
        chosen, twice = [], 2 * self._coarser * (COLUMN_STRIDE if batch.in_columns else STRIDE)
        while at < rows:
            chosen.append(at)
            at += 1 + int(self._random.random() * twice)  # never in step with keys that alternate regularly
        self._next = at - rows
        try:
            records = batch.take(chosen).to_rows(self._type).rows
            self._sketch.add([_hashable(self._key_of(record)) for record in records])
        except TaskInterrupted:
            raise
        except Exception as error:
            log.info("disabled the detection of hot keys: %s", one_line(error))
            self._key_of = None
            return
        self._round += len(chosen)
        if self._round >= ROUND:
            self._think_over()

    def _think_over(self) -> None:
        """Adjusts the stride after a round: fewer samples if the round was short, more if it was long."""
        now = self._clock()
        seconds, self._since, self._round = now - self._since, now, 0
        if seconds < SHORTEST:
            self._coarser *= 2
        elif seconds > 4 * SHORTEST and self._coarser > 1:
            self._coarser //= 2
        if self._sketch.total >= _FADE_AT:
            self._sketch.fade()

    @property
    def sampled(self) -> float:
        """How many records the counts represent."""
        return self._sketch.total

    def top(self) -> dict[str, float]:
        """The counts of the most frequent keys, by their printed form."""
        found: dict[str, float] = {}
        for key, count in self._sketch.top(SHOWN):
            text = printable(repr(key))
            shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
            found[shown] = found.get(shown, 0.0) + count
        return found


def _hashable(key: Any) -> Any:
    try:
        hash(key)
    except TypeError:
        return repr(key)
    return key


def sketch_of(partitioner: plan.Partitioner, record_type: TypeInformation) -> KeySketch | None:
    """The sketch of an input that is partitioned by key; None for other inputs.

    Also None for a selector that has to be opened, since this copy is not.
    """
    if not isinstance(partitioner, plan.HashPartitioner):
        return None
    function = partitioner.key_selector.function
    if isinstance(function, Function) and type(function).open is not Function.open:
        return None
    return KeySketch(key_function(partitioner.key_selector), record_type)
