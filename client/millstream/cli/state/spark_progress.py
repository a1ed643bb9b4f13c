"""How far Spark is, for users: the stages that run, and how many of their tasks are done."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from millstream.cli.progress import progress_on_terminal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EVERY = 0.2


@contextlib.contextmanager
def stages_on_terminal(spark: SparkSession, doing: str, verbose: bool) -> Iterator[None]:
    """Shows what is done and, while it is, the stages of Spark; only on a terminal."""
    with progress_on_terminal(verbose) as show:
        show(doing)
        if verbose or not sys.stderr.isatty():
            yield
            return
        over = threading.Event()
        watcher = threading.Thread(target=_watch, args=(spark, doing, show, over), name="stages", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()


def _watch(spark: SparkSession, doing: str, show: Callable[[str], None], over: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    while not over.wait(_EVERY):
        try:
            running = [info for stage in sorted(tracker.getActiveStageIds()) if (info := tracker.getStageInfo(stage))]
        except Exception:  # the session is stopping: what it does now is not shown
            return
        show(progress_line(doing, running))


def progress_line(doing: str, running: list[Any]) -> str:
    """`writing: stage 3, 12 of 200 tasks`, with all stages that run."""
    stages = (f"stage {info.stageId}, {info.numCompletedTasks} of {info.numTasks} tasks" for info in running)
    return ": ".join([doing, "; ".join(stages)]) if running else doing
