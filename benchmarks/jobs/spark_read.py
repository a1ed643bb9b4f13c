"""`spark_read.py HOW SAVEPOINT`: reads the state of `spark_savepoint.py`, as state or as `plain` Parquet files.

All rows and columns go to Spark's sink that keeps nothing. The first time, which loads and compiles, is not counted.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from marks import report
from spark_job import PeakMemory, session

TIMES = 5


def main(how: str, path: str) -> None:
    """Reports the seconds of each time, the peak memory, and what was read."""
    with session() as spark, PeakMemory() as peak:
        seconds = [_read(_frame(spark, how, path)) for _ in range(TIMES + 1)][1:]
        count, total = _frame(spark, how, path).selectExpr("count(key)", "sum(value)").first()
        report("read", seconds=seconds, peak=peak.megabytes, count=count, total=total)


def _frame(spark: Any, how: str, path: str) -> Any:
    if how == "plain":
        return spark.read.parquet(f"{path}/counter/counts")
    from millstream.spark import SavepointReader

    return SavepointReader.read(spark, path).read_keyed_state("counter", "counts")


def _read(frame: Any) -> float:
    begin = time.monotonic()
    frame.write.format("noop").mode("overwrite").save()
    return time.monotonic() - begin


if __name__ == "__main__":
    main(*sys.argv[1:])
