"""Spark with two cores for a benchmark, and the memory that all of its processes take."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_EVERY = 0.1  # seconds between two samples of the memory


@contextlib.contextmanager
def session() -> Iterator[Any]:
    """A context manager that yields a quiet Spark session on loopback; its JVM ends with this process."""
    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    from pyspark.sql import SparkSession

    options = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.master("local[2]").appName("benchmark")
    for name, value in options.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


class PeakMemory:
    """A context: the peak memory of this process and all its descendants together, in MiB.

    Memory that processes share is divided among them.
    """

    def __init__(self) -> None:
        self.megabytes = 0.0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(_EVERY):
            self.megabytes = max(self.megabytes, sum(map(_megabytes, _family())))


def _family() -> list[int]:
    """Returns this process and its descendants."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found = [os.getpid()]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def _megabytes(pid: int) -> float:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0
