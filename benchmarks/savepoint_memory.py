"""Memory of a savepoint and of a restore: keyed state (int64 to a pair of int64) on the heap, in a process of its own.

The process fills the state and writes a savepoint of it, on the thread of a writer, as a slot worker does; the peak of
its resident memory until the savepoint is written is compared with its size before. Another process restores the
state from the savepoint, and its size is compared with that of the first before the savepoint.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from processes import Run
from rows import Row, Scale, at_most, check

KEYS = 1_000_000
TIMEOUT = 300.0


def measure(scale: Scale) -> list[Row]:
    keys = scale.of(KEYS)
    with TemporaryDirectory(prefix="millstream-benchmark-") as folder, Run() as run:
        run.start("savepoint_memory_worker.py", "write", str(keys), folder)
        run.wait(TIMEOUT)
        run.start("savepoint_memory_worker.py", "restore", str(keys), folder)
        run.wait(TIMEOUT)
        size = sum(path.stat().st_size for path in Path(folder).rglob("*.parquet"))
        (before,), (after,) = run.marks("written"), run.marks("restored")
    check(before["sum"] == after["sum"], "the restored state is another one")
    more = 100 * (before["peak"] / before["memory"] - 1)
    larger = 100 * (after["memory"] / before["memory"] - 1)
    note = f"{before['memory']:.0f} MiB before, {before['peak']:.0f} at the peak; {size / 2**20:.1f} MiB of files"
    restored = f"{after['memory']:.0f} MiB, {after['peak']:.0f} at the peak"
    return [
        Row(f"more memory while a savepoint of {keys:,} keys is written", more, "%", at_most(15), note=note),
        Row("more memory after the restore", larger, "%", at_most(10), note=restored),
    ]
