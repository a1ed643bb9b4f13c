"""The same on Bytewax: `python -m bytewax.run 'window_bytewax:windows(RECORDS, KEYS, WINDOWS)' -i I -a ADDRESSES`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import bytewax.operators as op
import bytewax.operators.windowing as win
from bytewax.dataflow import Dataflow
from pipeline_bytewax import LastOfEachKey, Numbers

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def windows(records: int, keys: int, number: int) -> Dataflow:
    half = records // 2
    flow = Dataflow("row_windows")
    numbers = op.input("numbers", flow, Numbers(records))
    clock = win.EventClock(lambda x: BEGIN + timedelta(milliseconds=x % half), timedelta(days=1))  # nothing is late
    windower = win.TumblingWindower(timedelta(milliseconds=half // number), BEGIN)
    counted = win.count_window("count", numbers, clock, windower, lambda x: str(x * 7919 % keys))
    counts = op.map("counts", counted.down, lambda item: (item[0], item[1][1]))
    op.output("last", counts, LastOfEachKey())
    return flow
