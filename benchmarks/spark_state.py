"""Keyed state (int64 to int64) written and read by Spark with two cores, as a curve over the keys.

A bootstrap reads history in Parquet, with the keys in no order, hashes, moves, sorts and writes it as a savepoint, and
reads each file again to compare it. The peer is Spark that reads the same history and writes the same rows as Parquet
with the same compression, neither moved nor sorted: the minimum. Spark moving and sorting them as well, and a bootstrap
without the comparison, are measured only in the long form.

A read compares every file with its checksum and its rows with the metadata. The peer is Spark reading the same Parquet
files as such. Both read all rows and columns into Spark's sink that keeps nothing. Planning takes place in a Python
worker, which dominates a read of few keys.

The median of three times, without the start of Spark. The memory is the most that the driver, its JVM and all Python
workers took at one time, and includes what smaller numbers of keys have left in the JVM. The restore is the additional
time of a job with two slots until its first record, compared with a start without a savepoint.
"""

from __future__ import annotations

import statistics
import tempfile
from typing import Any

from processes import Run
from rows import Peer, Row, Scale, Target, check

SIZES = (100_000, 1_000_000, 10_000_000)
TIMEOUT = 300.0
HALF_AS_FAST = Target(0.5, at_least=True, of_ratio=True)
PARQUET = "Spark, Parquet"

Marks = dict[int, dict[str, Any]]
"""By the number of keys."""


def measure(scale: Scale) -> list[Row]:
    sizes = [max(1000, int(size * min(1.0, scale.factor))) for size in SIZES]
    with tempfile.TemporaryDirectory(prefix="millstream-benchmark-") as folder:
        history = _run(("history",), "spark_history.py", folder, *map(str, sizes))["history"]
        ours, plain = (_rows(how, folder, sizes) for how in ("state", "plain"))
        others = {how: _rows(how, folder, sizes)["write"] for how in ("unverified", "sorted") if scale.factor >= 5}
        for each in (ours, plain):
            for keys, mark in each["read"].items():
                check(mark["count"] == keys, f"{keys} keys had to be read, not {mark['count']}")
                check(mark["total"] == history[keys]["total"], f"the values of {keys} keys have another sum")
        restore = Row(f"{sizes[-1]:,} keys: restore by a job", _restored(folder, sizes[-1]), "s")
    rows = [row for keys in sizes for row in _writing(keys, ours["write"], plain["write"], others)]
    return [*rows, restore, *(row for keys in sizes for row in _reading(keys, ours["read"], plain["read"]))]


def _writing(keys: int, ours: Marks, plain: Marks, others: dict[str, Marks]) -> list[Row]:
    notes = [_runs(ours[keys]), f"{ours[keys]['size']:.0f} MB for {plain[keys]['size']:.0f}"]
    if others:
        notes.append(f"not compared {_median(others['unverified'][keys]):.2f} s")
        notes.append(f"Spark, sorted {_median(others['sorted'][keys]):.2f} s")
    return _two(keys, "bootstrap", ours, plain, "; ".join(notes))


def _reading(keys: int, ours: Marks, plain: Marks) -> list[Row]:
    return _two(keys, "read", ours, plain, _runs(ours[keys]))


def _two(keys: int, what: str, ours: Marks, plain: Marks, note: str) -> list[Row]:
    rates = [keys / _median(each[keys]) for each in (plain, ours)]
    target = HALF_AS_FAST if keys >= SIZES[-1] else None
    peaks = [each[keys]["peak"] for each in (plain, ours)]
    return [
        Row(f"{keys:,} keys: {what}", rates[1], "keys/s", target, Peer(PARQUET, rates[0]), note),
        Row(f"{keys:,} keys: memory of a {what}", peaks[1], "MiB", peer=Peer(PARQUET, peaks[0])),
    ]


def _median(mark: dict[str, Any]) -> float:
    return statistics.median(mark["seconds"])


def _runs(mark: dict[str, Any]) -> str:
    return "runs: " + ", ".join(f"{each:.2f} s" for each in mark["seconds"])


def _rows(how: str, folder: str, sizes: list[int]) -> dict[str, Marks]:
    return _run(("write", "read"), "spark_rows.py", how, folder, *map(str, sizes))


def _restored(folder: str, keys: int) -> float:
    """Returns the seconds of a run, and checks the values that the job reads."""
    without, with_state = (_to_first_record(keys, *source) for source in ((), (f"{folder}/state-{keys}",)))
    return with_state - without


def _to_first_record(keys: int, *savepoint: str) -> float:
    with Run() as run:
        run.start("spark_restore.py", str(keys), *savepoint)
        run.wait(TIMEOUT)
        right, wanted = sum(mark["count"] for mark in run.marks("right")), len(range(0, keys, max(1, keys // 1000)))
        check(right == (wanted if savepoint else 0), f"{right} of {wanted} keys had their value")
        return (max(mark["moment"] for mark in run.marks("flowing")) - run.started_ns) / 1e9


def _run(kinds: tuple[str, ...], script: str, *arguments: str) -> dict[str, Marks]:
    with Run() as run:
        run.start(script, *arguments)
        run.wait(TIMEOUT)
        return {kind: {mark["keys"]: mark for mark in run.marks(kind)} for kind in kinds}
