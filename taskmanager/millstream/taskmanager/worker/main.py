"""The main of a slot worker: `python -m millstream.taskmanager.worker.main --control-fd N --host H`.

Everything else is imported when the garbage collector is set: going through what imports make took a tenth of their
time, which is most of what a worker needs to be ready.
"""

from __future__ import annotations

import gc

GC_THRESHOLDS = (50_000, 20, 100)  # batches are many short-lived objects: Python's defaults cost 12 % of the pipeline


def main() -> None:
    """Runs the worker in this process."""
    gc.set_threshold(*GC_THRESHOLDS)
    from millstream.taskmanager.worker.process import run_process

    run_process()


if __name__ == "__main__":
    main()
