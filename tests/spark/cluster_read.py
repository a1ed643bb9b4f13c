"""A program of its own, for a cluster of separate executors: reads a state and prints what it found as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from conftest import started_spark

from millstream.spark import SavepointReader


def main(path: str, folder: str) -> None:
    # No program has registered the data source here: Spark finds it.
    for spark in started_spark("local-cluster[2,1,1024]", Path(folder), spark_executor_memory="512m"):
        of_sql = spark.read.format("millstream").options(uid="counter", state="counts").load(path)
        frame = SavepointReader.read(spark, path).read_keyed_state("counter", "counts")

        found = {
            "sum": frame.agg({"value": "sum"}).first()[0],
            "one": [list(row) for row in of_sql.filter("key = 7").select("key", "value").collect()],
            "executors": spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1,
        }
        print("FOUND", json.dumps(found), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
