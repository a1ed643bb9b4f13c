"""The main of a slot worker: `python -m millstream.taskmanager.worker.main --control-fd N --host H`.

All other modules are imported after the garbage collector is configured: collecting the objects that imports create
took a tenth of the import time, which is most of a worker's start.
"""

from __future__ import annotations

import gc

GC_THRESHOLDS = (50_000, 20, 100)  # batches are many short-lived objects: Python's defaults cost 12 % of the throughput


def main() -> None:
    """Runs the worker in this process."""
    gc.set_threshold(*GC_THRESHOLDS)
    from millstream.taskmanager.worker.process import run_process

    run_process()


if __name__ == "__main__":
    main()
