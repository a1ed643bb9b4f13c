"""From `python job.py` to the first record in a user's function, the time to import the API, and idle memory.

The first includes starting the interpreter, the embedded cluster, an enumerator process and a slot worker. Memory is
the resident memory of a slot worker whose tasks have been opened and have nothing to do, the larger of two.
"""

from __future__ import annotations

import statistics
import time

from processes import INTERRUPTED, Run, resident_megabytes
from rows import Row, Scale, at_most, check

TIMES = 5
SETTLING = 2.0  # seconds for the start-up work to settle


def measure(scale: Scale) -> list[Row]:
    del scale  # it has no size
    _first_record()  # fills the file system's cache and the bytecode's
    first, whole = zip(*(_first_record() for _ in range(TIMES)), strict=True)
    imports = [_import_time() for _ in range(TIMES)]
    memory = _idle_memory()
    return [
        Row("start to first record, median of five", statistics.median(first), "s", at_most(2), note=_runs(first)),
        Row("start to first record, best of five", min(first), "s"),
        Row("start to end of the whole program, median", statistics.median(whole), "s", note=_runs(whole)),
        Row("import millstream.datastream, median of five", statistics.median(imports), "s", at_most(0.3)),
        Row("resident memory of an idle slot worker", memory, "MiB", at_most(120)),
    ]


def _first_record() -> tuple[float, float]:
    with Run() as run:
        run.start("first_record.py")
        whole = run.wait(60)
        marks = run.marks("record")
        check([mark["value"] for mark in marks] == [42], f"one record had to arrive, not {marks}")
        return (marks[0]["moment"] - run.started_ns) / 1e9, whole


def _import_time() -> float:
    with Run() as run:
        run.start("import_time.py")
        run.wait(60)
        return float(run.marks("import")[0]["seconds"])


def _idle_memory() -> float:
    with Run() as run:
        run.start("idle.py")
        run.wait_for(lambda: len(run.marks("opened")) == 2, "the tasks of the idle job are open", 60)
        time.sleep(SETTLING)
        run.check_alive()
        workers = run.workers()
        check(len(workers) == 2, f"there had to be two slot workers, not {len(workers)}")
        sizes = [resident_megabytes(pid) for pid in workers]
        run.interrupt()
        run.wait(60, expected=INTERRUPTED)
        return max(size for size in sizes if size is not None)


def _runs(seconds: tuple[float, ...]) -> str:
    return "runs: " + ", ".join(f"{each:.2f}" for each in seconds)
