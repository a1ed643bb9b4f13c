"""Which keys come most often at an input with keys: a space-saving sketch over a sample. Owned by the worker's loop.

Every 16th record is sampled, and of many records a second fewer, so that it is about as many however many there are:
that costs well below 1 % of a job that does next to nothing with its records. The sketch has a place for
few keys. A key that has none takes that of the rarest, with its count: so a count is never too low, and a key that has
more than its share is always there (Metwally et al., 2005). Counts fade: what came lately is what matters.
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
from millstream.core.records.batches import Batch, RowBatch
from millstream.core.records.conversion import record_batch_to_rows
from millstream.core.records.types import TypeInformation
from millstream.datastream.functions import Function
from millstream.taskmanager.worker.interruption import TaskInterrupted
from millstream.taskmanager.worker.partitioning import key_function

log = logging.getLogger(__name__)
STRIDE = 16  # from one sampled record to the next, on average, if there are few
COLUMN_STRIDE = 16_384  # a row of columns costs far more to sample
ROUND = 256  # samples, after which the stride is thought over
SHORTEST = 0.25  # seconds that a round should take, or else fewer records are sampled
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
        """Of all items, faded as the counts are."""

    def add(self, items: Iterable[Any]) -> None:
        """Takes items in."""
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
        """Halves all that was counted."""
        self.counts = {item: count / 2 for item, count in self.counts.items()}
        self.total /= 2

    def top(self, most: int) -> list[tuple[Any, float]]:
        """The most frequent, the first first."""
        return sorted(self.counts.items(), key=lambda entry: entry[1], reverse=True)[:most]


class KeySketch:
    """Of one input of a task; given up when the key of a record cannot be determined."""

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
        self._coarser = 1  # times the least stride
        self._round = 0  # samples
        self._since = clock()
        self._sketch = SpaceSaving()

    def look(self, batch: Batch) -> None:
        """A batch comes in."""
        at, rows = self._next, len(batch)
        if at >= rows or self._key_of is None:
            self._next = at - rows
            return
        chosen, twice = [], 2 * self._coarser * (STRIDE if isinstance(batch, RowBatch) else COLUMN_STRIDE)
        while at < rows:
            chosen.append(at)
            at += 1 + int(self._random.random() * twice)  # never in step with keys that come in turn
        self._next = at - rows
        try:
            if isinstance(batch, RowBatch):
                records = [batch.rows[each] for each in chosen]
            else:
                records = record_batch_to_rows(batch.data.take(chosen), self._type)
            self._sketch.add([_hashable(self._key_of(record)) for record in records])
        except TaskInterrupted:
            raise
        except Exception as error:
            log.info("hot keys are not looked for: %s", one_line(error))
            self._key_of = None
            return
        self._round += len(chosen)
        if self._round >= ROUND:
            self._think_over()

    def _think_over(self) -> None:
        """A round is over: samples fewer records from now on if it was short, at more if it was long."""
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
        """How many records the counts are of."""
        return self._sketch.total

    def top(self) -> dict[str, float]:
        """The counts of the most frequent keys, as they are shown."""
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
    """Of an input whose records are spread by a key; None for others.

    And for a selector that has to be opened: this one is not.
    """
    if not isinstance(partitioner, plan.HashPartitioner):
        return None
    function = partitioner.key_selector.function
    if isinstance(function, Function) and type(function).open is not Function.open:
        return None
    return KeySketch(key_function(partitioner.key_selector), record_type)
