"""Checkpoints of a million open windows over Python rows: one window of each key, in two slots.

Tumbling windows with an aggregate function that adds record by record, and a window function at the end. The job runs
at full speed; its aggregate function records when it is called. The pause is the longest time between two calls in a
slot worker from 100 ms before a capture to the notification that the checkpoint is complete, compared with the time
between checkpoints of the same run. The processor time of the worker in a pause separates its own ones from those of a
busy machine.
"""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np
from keyed_state import SLACK, Window, keyed_state_job
from rows import Row, Scale, at_most

WINDOWS = 1_000_000
CHECKPOINTS = 3


def measure(scale: Scale) -> list[Row]:
    windows = scale.of(WINDOWS)
    options = {"execution.checkpointing.min-pause": "2 s"}
    with keyed_state_job(windows, "5 s", options=options, script="open_windows_job.py") as job:
        job.wait_for_checkpoints(CHECKPOINTS)
        job.stop()
        pauses, checkpoints, durations = job.run.samples("pauses"), job.windows(), job.durations()
    since = min(each.began for each in checkpoints)
    met = np.array([any(_meets(pause, each) for each in checkpoints) for pause in pauses])
    lengths, worked = (pauses[:, 1] - pauses[:, 0]) / 1e6, pauses[:, 3] / 1e6
    between = lengths[~met & (pauses[:, 0] > since)].max(initial=0)
    note = f"{between:.0f} ms between them; at most {worked[met].max(initial=0):.0f} ms of processor time in a pause"
    return [
        Row(
            f"longest pause during checkpoints of {windows:,} open windows", float(lengths[met].max(initial=0)), "ms",
            at_most(100), note=note,
        ),
        Row("duration of a checkpoint, median", statistics.median(durations), "s"),
    ]  # fmt: skip


def _meets(pause: np.ndarray[Any, Any], checkpoint: Window) -> bool:
    begin, end, pid, _ = pause
    return bool(pid == checkpoint.pid and end >= checkpoint.began - SLACK and begin <= checkpoint.ended)
