"""Tumbling windows over Python rows: counts by key, and what event time costs a pipeline that makes no use of it.

Two slot workers against two processes of Bytewax, which get fewer records because they take so much longer; records/s
go from the first batch of a source to the last batch of a sink, PyFlink's (see pyflink_peer) from the first record of
its map to the last result of a window, without any start. With 1,000 keys there are ten windows with all of the
keys in each, with 1,000,000 keys two windows, each of half of them. Event time is what the Python pipeline (see
python_pipeline) loses when every record gets a timestamp and watermarks are sent: in turns, best of three each. Once
no operator behind the source reads the timestamps, and once the sink may, so that they go through the whole pipeline.
"""

from __future__ import annotations

from collections import Counter

import pyflink_peer
from processes import Run
from python_pipeline import TIMES, Timing, all_rates, best, run_millstream, start_bytewax
from rows import Peer, Row, Scale, at_most, check, times_the_peer

TIMEOUT = 600.0


def measure(scale: Scale) -> list[Row]:
    plain, timed, carried = [], [], []
    for _ in range(TIMES):
        plain.append(run_millstream(scale.of(2_000_000), "typed"))
        timed.append(run_millstream(scale.of(2_000_000), "timed"))
        carried.append(run_millstream(scale.of(2_000_000), "carried"))
    return [
        *_windows(scale, keys=1_000, windows=10, bytewax_records=200_000, pyflink_records=200_000),
        *_windows(scale, keys=1_000_000, windows=2, bytewax_records=50_000, pyflink_records=100_000),
        _cost("timestamps and watermarks in the Python pipeline", plain, timed),
        _cost("timestamps and watermarks in the Python pipeline, carried to the sink", plain, carried),
    ]  # fmt: skip


def _cost(what: str, plain: list[Timing], timed: list[Timing]) -> Row:
    cost = 100 * (1 - best(timed).rate / best(plain).rate)
    return Row(what, cost, "%", at_most(15), note=f"without, {all_rates(plain)}; with, {all_rates(timed)}")


def _windows(scale: Scale, keys: int, windows: int, bytewax_records: int, pyflink_records: int) -> list[Row]:
    records = scale.of(2_000_000)
    what = f"count by key in tumbling windows, {keys:,} keys"
    ours = max(_millstream(records, keys, windows) for _ in range(TIMES))
    theirs = _bytewax(bytewax_records, keys, windows)
    note = f"{records:,} records, Bytewax {bytewax_records:,}{pyflink_peer.absence(scale)}"
    return [
        Row(what, ours, "records/s", times_the_peer(4), Peer("Bytewax, two processes", theirs), note),
        *pyflink_peer.compared(
            what, ours, pyflink_peer.WANTED, scale, "window_pyflink.py", (pyflink_records, keys, windows),
            lambda run, given: _checked_rate(run, given, keys, windows),
        ),
    ]  # fmt: skip


def _millstream(records: int, keys: int, windows: int) -> float:
    with Run() as run:
        run.start("window_millstream.py", *map(str, (records, keys, windows)))
        run.wait(TIMEOUT)
        return _checked_rate(run, records, keys, windows)


def _bytewax(records: int, keys: int, windows: int) -> float:
    with Run() as run:
        start_bytewax(run, f"window_bytewax:windows({records}, {keys}, {windows})")
        run.wait(TIMEOUT)
        return _checked_rate(run, records, keys, windows)


def _checked_rate(run: Run, records: int, keys: int, windows: int) -> float:
    half = records // 2
    counts = Counter((i % half // (half // windows), i * 7919 % keys) for i in range(records))
    last = {str(key): counts[window, key] for window, key in sorted(counts)}
    sources, sinks = run.marks("source"), run.marks("sink")
    results = sum(mark["count"] for mark in sinks)
    check(results == len(counts), f"{len(counts)} windows of keys had to be emitted, not {results}")
    check({key: value for mark in sinks for key, value in mark["values"].items()} == last, "the counts are wrong")
    seconds = (max(mark["last"] for mark in sinks) - min(mark["first"] for mark in sources)) / 1e9
    return records / float(seconds)
