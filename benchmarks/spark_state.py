"""Keyed state (int64 to int64) of a savepoint, read by Spark with two cores, as a curve over the number of keys.

`SavepointReader` compares every file with its checksum and its rows with the metadata. The peer is Spark reading the
same Parquet files as such, which is the least that reading takes. Both read all rows and columns into Spark's sink that
keeps nothing; the median of five times, after one that is not counted, without the start of Spark. The memory is the
most that the driver, its JVM and all Python workers took at one time. 10 M keys, for which the target is, are only in
the long form: with few keys it is planning in a Python worker that takes the time, some 0.3 s for any read.
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
    return [row for size in sizes for row in _reading(max(1000, int(size * min(1.0, scale.factor))))]


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
