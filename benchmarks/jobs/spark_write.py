"""`spark_write.py HOW KEYS FOLDER`: writes value state (int64 to int64) by Spark: as a savepoint, or as Parquet.

`plain` writes the same rows as Spark has them, `sorted` after it has moved and sorted them by ranges of the key, which
is what a savepoint needs of them. The first time, which loads and compiles, is not counted.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from marks import report
from spark_job import PeakMemory, session

TIMES = 3
MAX_PARALLELISM = 128


def main(how: str, keys: int, folder: str) -> None:
    """Reports the seconds of each time, the peak memory, and where the last one was written to."""
    with session() as spark, PeakMemory() as peak:
        frame = spark.range(keys).selectExpr("id as key", "id * 3 as value")
        paths = [f"{folder}/{how}-{number}" for number in range(TIMES + 1)]
        seconds = [_written(how, spark, frame, path) for path in paths][1:]
        report("write", seconds=seconds, peak=peak.megabytes, path=paths[-1])


def _written(how: str, spark: Any, frame: Any, path: str) -> float:
    begin = time.monotonic()
    if how in ("plain", "sorted"):
        rows = frame if how == "plain" else frame.repartitionByRange(2, "key").sortWithinPartitions("key")
        rows.write.option("compression", "zstd").parquet(path)
    else:
        from millstream.spark import SavepointWriter

        writer = SavepointWriter.new_savepoint(spark, MAX_PARALLELISM)
        writer.with_keyed_state("counter", "counts", frame, key="key", value="value")
        writer.write(path, verify=how == "verified")
    return time.monotonic() - begin


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
