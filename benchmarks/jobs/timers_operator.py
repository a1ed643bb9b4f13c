"""`timers_operator.py TIMERS`: a keyed process function that sets a timer for each record, and emits when it fires."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from typing import Any

from marks import report
from operator_run import seconds_of

from millstream.common import Watermark
from millstream.core.jobs.plan.plan import KeyedProcessSpec, KeySelector
from millstream.core.records.batches import RowBatch
from millstream.core.records.types import from_hint
from millstream.datastream import KeyedProcessFunction
from millstream.taskmanager.testing import OperatorHarness

BATCH = 2048
LATER = 1_000  # ms: the disorder of the timers


class Alarm(KeyedProcessFunction):
    """Records are `(key, time)`."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        """Sets a timer."""
        ctx.timer_service().register_event_time_timer(value[1])

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        """Emits the key."""
        yield ctx.get_current_key()


def main(count: int) -> None:
    """A timer for each of so many keys, all set before the first one fires; a watermark every 1,000 timers."""
    chance = random.Random(7)
    rows = [(key, 10 * key + chance.randrange(LATER)) for key in range(count)]
    batches = [(0, RowBatch(rows[start : start + BATCH])) for start in range(0, count, BATCH)]
    watermarks = [(0, Watermark(time)) for time in range(0, 10 * count + LATER + 10_000, 10_000)]
    spec = KeyedProcessSpec(Alarm(), KeySelector(fields=(0,)), from_hint(int))
    harness = OperatorHarness(spec, from_hint(tuple[int, int])).open()
    setting, _ = seconds_of(harness, batches)
    firing, fired = seconds_of(harness, watermarks)
    report("timers", setting=setting, firing=firing, fired=fired)


if __name__ == "__main__":
    main(int(sys.argv[1]))
