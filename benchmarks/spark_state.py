"""Keyed state (int64 to int64) of a savepoint, read and written by Spark with two cores, as a curve over the keys.

`SavepointReader` compares every file with its checksum and its rows with the metadata. The peer is Spark reading the
same Parquet files as such, which is the least that reading takes. Both read all rows and columns into Spark's sink that
keeps nothing; the median of five times, after one that is not counted, without the start of Spark. The memory is the
most that the driver, its JVM and all Python workers took at one time. 10 M keys, for which the target is, are only in
the long form: with few keys it is planning in a Python worker that takes the time, some 0.3 s for any read.

A bootstrap hashes, moves, sorts and writes the rows, and reads all files again to check them. The peer is Spark writing
the same rows as Parquet with the same compression, neither moved nor sorted: the least that writing takes. The note has
the time without the check, and that of Spark writing the rows sorted by ranges of the key. The median of three times.
"""

from __future__ import annotations

import statistics
import tempfile
from typing import Any

from processes import Run
from rows import Peer, Row, Scale, Target, check

SIZES = (100_000, 1_000_000)
LONG = 10_000_000
TIMEOUT = 300.0
HALF_AS_FAST = Target(0.5, at_least=True, of_ratio=True)


def measure(scale: Scale) -> list[Row]:
    sizes = [*SIZES, *([LONG] if scale.factor >= 5 else [])]
    counts = [max(1000, int(size * min(1.0, scale.factor))) for size in sizes]
    return [row for measured in (_reading, _writing) for count in counts for row in measured(count)]


def _reading(keys: int) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="millstream-benchmark-") as folder:
        (made,) = _run("savepoint", "spark_savepoint.py", str(keys), folder)
        plain, ours = (_read(how, made["path"], keys) for how in ("plain", "state"))
    rates = [keys / statistics.median(each["seconds"]) for each in (plain, ours)]
    target = HALF_AS_FAST if keys >= LONG else None
    note = "runs: " + ", ".join(f"{each:.2f} s" for each in ours["seconds"])
    return [
        Row(f"{keys:,} keys: read", rates[1], "keys/s", target, Peer("Spark, Parquet", rates[0]), note),
        Row(f"{keys:,} keys: memory", ours["peak"], "MiB", peer=Peer("Spark, Parquet", plain["peak"])),
    ]


def _writing(keys: int) -> list[Row]:
    found = {}
    for how in ("plain", "sorted", "state", "verified"):
        with tempfile.TemporaryDirectory(prefix="millstream-benchmark-") as folder:
            (found[how],) = _run("write", "spark_write.py", how, str(keys), folder)
    medians = {how: statistics.median(mark["seconds"]) for how, mark in found.items()}
    note = f"without the check {medians['state']:.2f} s; Spark, sorted {medians['sorted']:.2f} s"
    ours, peer = keys / medians["verified"], Peer("Spark, Parquet", keys / medians["plain"])
    return [
        Row(f"{keys:,} keys: bootstrap", ours, "keys/s", HALF_AS_FAST, peer, note),
        Row(
            f"{keys:,} keys: memory of a bootstrap", found["verified"]["peak"], "MiB",
            peer=Peer("Spark, Parquet", found["plain"]["peak"]),
        ),
    ]  # fmt: skip


def _read(how: str, path: str, keys: int) -> dict[str, Any]:
    (mark,) = _run("read", "spark_read.py", how, path)
    check(mark["count"] == keys, f"{keys} keys had to be read, not {mark['count']}")
    check(mark["total"] == 3 * keys * (keys - 1) // 2, f"the values read ({how}) have another sum")
    return mark


def _run(kind: str, script: str, *arguments: str) -> list[dict[str, Any]]:
    with Run() as run:
        run.start(script, *arguments)
        run.wait(TIMEOUT)
        return run.marks(kind)
