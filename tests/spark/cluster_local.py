"""A program of its own, for a cluster of separate executors: reads a state, and kills an executor that writes one.

The rows that are written are produced by tasks that wait, not on the second attempt, until an executor is gone: so the
kill hits a write in progress, at a random moment.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from conftest import started_spark

from millstream.spark import SavepointReader, SavepointWriter

ROWS, DEADLINE = 20_000, 60


def main(source: str, target: str, folder: str) -> None:
    for spark in started_spark("local-cluster[2,1,1024]", Path(folder), spark_executor_memory="512m"):
        read = reading(spark, source)
        print("FOUND", json.dumps({"read": read, "write": writing(spark, target, Path(folder))}), flush=True)


def reading(spark: Any, path: str) -> dict[str, Any]:
    """What two executors read of a state. The program has not registered the data source: Spark finds it."""
    of_sql = spark.read.format("millstream").options(uid="counter", state="counts").load(path)
    one = [list(row) for row in of_sql.filter("key = 7").select("key", "value").collect()]
    frame = SavepointReader.read(spark, path).read_keyed_state("counter", "counts")
    executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
    return {"sum": frame.agg({"value": "sum"}).first()[0], "one": one, "executors": executors}


def writing(spark: Any, target: str, folder: Path) -> dict[str, Any]:
    """How a write ends of which an executor was killed."""
    running, killed = folder / "running", folder / "killed"
    threading.Thread(target=_kill_one, args=(running, killed), daemon=True).start()

    def rows(batches: Any) -> Iterator[Any]:
        for batch in batches:
            if not killed.exists():
                running.with_suffix(f".{os.getppid()}").touch()
                until = time.monotonic() + DEADLINE
                while not killed.exists() and time.monotonic() < until:
                    time.sleep(0.01)  # a task has nothing else to wait on
            yield batch

    frame = spark.range(0, ROWS, 1, 4).mapInArrow(rows, "id long").selectExpr("id", "id * 2 as twice")
    writer = SavepointWriter.new_savepoint(spark, 64).with_keyed_state("op", "s", frame, key="id", value="twice")
    outcome = "written"
    try:
        writer.write(target)
    except Exception as error:
        outcome = type(error).__name__
    return {"outcome": outcome, "killed": killed.exists()}


def _kill_one(running: Path, killed: Path) -> None:
    """Kills the executor of the first task that runs: its Python daemon's parent is the executor."""
    until = time.monotonic() + DEADLINE
    while time.monotonic() < until:
        for mark in running.parent.glob("running.*"):
            daemon = int(mark.suffix[1:])
            with contextlib.suppress(OSError, IndexError):
                parent = int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])
                os.kill(parent, signal.SIGKILL)
                killed.touch()
                return
        time.sleep(0.05)


if __name__ == "__main__":
    main(*sys.argv[1:])
