"""`spark_rows.py HOW FOLDER KEYS ...`: history (`spark_history.py`) made state by Spark, and read; for each size.

`state` writes a savepoint with one value state (int64 to int64), and reads it. `plain` writes the same rows as Parquet,
and reads the files of that savepoint directly, which has to exist. `sorted` prepares the rows for a savepoint with
Spark's own means: moved and sorted by ranges of the key; `unverified` does not read its files again; these two only
write. The first time, which loads and compiles, is not counted.
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from typing import Any

from marks import report
from spark_job import PeakMemory, session

TIMES = 3
MAX_PARALLELISM = 128
READING = ("plain", "state")


def main(how: str, folder: str, *counts: str) -> None:
    """Reports the seconds of each time, and the peak memory, of writing and of reading."""
    with session() as spark:
        _write(how, spark, f"{folder}/history-{counts[0]}", f"{folder}/{how}-first")
        if how in READING:
            _read(how, spark, f"{folder}/state-{counts[0]}" if how == "plain" else f"{folder}/{how}-first")
        for count in map(int, counts):
            target = f"{folder}/{how}-{count}"
            with PeakMemory() as peak:
                seconds = [_write(how, spark, f"{folder}/history-{count}", target) for _ in range(TIMES)]
            report("write", keys=count, seconds=seconds, peak=peak.megabytes, size=_size(target))
            if how in READING:
                source = f"{folder}/state-{count}"
                with PeakMemory() as peak:
                    seconds = [_read(how, spark, source) for _ in range(TIMES)]
                found = _frame(how, spark, source).selectExpr("count(key)", "sum(value)").first()
                report("read", keys=count, seconds=seconds, peak=peak.megabytes, count=found[0], total=found[1])


def _write(how: str, spark: Any, source: str, path: str) -> float:
    shutil.rmtree(path, ignore_errors=True)
    begin = time.monotonic()
    rows = spark.read.parquet(source)
    if how in ("plain", "sorted"):
        if how == "sorted":
            rows = rows.repartitionByRange(2, "key").sortWithinPartitions("key")
        rows.write.option("compression", "zstd").parquet(path)
    else:
        from millstream.spark import SavepointWriter

        writer = SavepointWriter.new_savepoint(spark, MAX_PARALLELISM)
        writer.with_keyed_state("counter", "counts", rows, key="key", value="value")
        writer.write(path, verify=how == "state")
    return time.monotonic() - begin


def _read(how: str, spark: Any, path: str) -> float:
    begin = time.monotonic()
    _frame(how, spark, path).write.format("noop").mode("overwrite").save()
    return time.monotonic() - begin


def _frame(how: str, spark: Any, path: str) -> Any:
    if how == "plain":
        return spark.read.parquet(f"{path}/counter/counts")
    from millstream.spark import SavepointReader

    return SavepointReader.read(spark, path).read_keyed_state("counter", "counts")


def _size(path: str) -> float:
    """The size in MB."""
    return sum(file.stat().st_size for file in Path(path).rglob("*.parquet")) / 1e6


if __name__ == "__main__":
    main(*sys.argv[1:])
