"""Runs of the job with much keyed state, and the cost of its checkpoints, as measured by the job itself."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from processes import INTERRUPTED, Run
from rows import BenchmarkError, check

from millstream.core.snapshot import SnapshotMetadata, storage_at

TIMEOUT = 300.0


@dataclass(frozen=True, slots=True)
class Window:
    """From a subtask's capture to the notification that the checkpoint is complete, in ns of the common clock."""

    pid: int
    began: int
    ended: int


class KeyedStateJob:
    """A running job. Checkpoints taken before all keys were present are left out."""

    def __init__(self, run: Run, keys: int, folder: Path) -> None:
        self.run = run
        self._keys = keys
        self._folder = folder

    def checkpoints(self) -> dict[int, list[dict[str, Any]]]:
        """Returns the reports of each subtask for the completed checkpoints that contain all keys."""
        reported: dict[int, list[dict[str, Any]]] = {}
        for mark in self.run.marks("checkpoint"):
            reported.setdefault(mark["checkpoint"], []).append(mark)
        return {
            number: marks
            for number, marks in sorted(reported.items())
            if len(marks) == 2 and sum(mark["keys"] for mark in marks) == self._keys
        }

    def newest(self) -> Path:
        """Returns the path of the newest of these checkpoints."""
        (folder,) = self._folder.glob(f"*/chk-{list(self.checkpoints())[-1]}")
        return folder

    def start_seconds(self) -> float:
        """Returns the seconds from the start of the program until both subtasks process records."""
        moments = lambda: [mark["moment"] for mark in self.run.marks("flowing")]  # noqa: E731
        self.run.wait_for(lambda: len(moments()) >= 2, "both subtasks process", TIMEOUT)
        return float(max(moments()) - self.run.started_ns) / 1e9

    def wait_for_checkpoints(self, count: int) -> None:
        self.run.wait_for(lambda: len(self.checkpoints()) >= count, f"{count} checkpoints of all keys", TIMEOUT)

    def metadata(self) -> dict[int, SnapshotMetadata]:
        """Returns the metadata of the checkpoints, and checks that they contain all keys."""
        found = {}
        for number in self.checkpoints():
            (pointer,) = self._folder.glob(f"*/chk-{number}")
            storage, location = storage_at(str(pointer))
            found[number] = storage.read_metadata(location)
            rows = sum(file.rows for file in found[number].files() if file.key_groups is not None)
            check(rows == self._keys, f"checkpoint {number} had to hold {self._keys} keys, not {rows}")
        return found

    def stop(self) -> None:
        self.run.interrupt()
        self.run.wait(60, expected=INTERRUPTED)
        check(self.run.marks("plan")[0]["strategies"] == ["HASH"], "the job's only exchange has to be a hash exchange")
        check(len({mark["pid"] for mark in self.run.marks("flowing")}) >= 2, "two slot workers had to take part")

    def windows(self) -> list[Window]:
        return [Window(m["pid"], m["began"], m["ended"]) for marks in self.checkpoints().values() for m in marks]

    def durations(self) -> list[float]:
        """Returns the seconds of each checkpoint from the first capture to the last notification."""
        return [
            (max(m["ended"] for m in marks) - min(m["began"] for m in marks)) / 1e9
            for marks in self.checkpoints().values()
        ]


@contextmanager
def keyed_state_job(
    keys: int, interval: str, hot_groups: int = 0, options: dict[str, str] | None = None,
    script: str = "keyed_state_job.py",
) -> Iterator[KeyedStateJob]:  # fmt: skip
    """Starts the job; with an interval of 0 it takes no checkpoints."""
    with TemporaryDirectory(prefix="millstream-checkpoints-") as folder, Run() as run:
        settings = {
            "execution.checkpointing.interval": interval,
            "execution.checkpointing.dir": folder,
            "execution.checkpointing.num-retained": "1000",
            "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.delay": "0 ms",
            **(options or {}),
        }
        run.start(script, str(keys), str(hot_groups), *(f"{k}={v}" for k, v in settings.items()))
        yield KeyedStateJob(run, keys, Path(folder))


@dataclass(frozen=True, slots=True)
class Cost:
    """Rates are records/s of both subtasks together; pauses are the longest times between two batches, in ms."""

    rate_during: float
    rate_between: float
    pause_during: float
    pause_between: float

    @property
    def drop(self) -> float:
        """Returns the drop of the rate while a checkpoint is in progress, in percent."""
        return 100 * (1 - self.rate_during / self.rate_between)


SLACK = 100_000_000  # ns before a capture: the last batch before a barrier


def cost_of(beats: np.ndarray[Any, Any], windows: list[Window]) -> Cost:
    """Compares the time of checkpoints with the time between the first and the last of them."""
    rates, pauses = {True: 0.0, False: 0.0}, {True: 0.0, False: 0.0}
    for pid in {window.pid for window in windows}:
        own = sorted((w for w in windows if w.pid == pid), key=lambda w: w.began)
        rows = beats[beats[:, 2] == pid]
        between = [Window(pid, a.ended, b.began - SLACK) for a, b in itertools.pairwise(own)]
        if not between or any(gap.ended <= gap.began for gap in between):
            raise BenchmarkError("the checkpoints follow each other without time between them")
        during = [Window(pid, w.began - SLACK, w.ended) for w in own]
        for is_during, parts in ((True, during), (False, between)):
            chosen = [rows[(rows[:, 0] >= w.began) & (rows[:, 0] <= w.ended)] for w in parts]
            seconds = sum(w.ended - w.began for w in parts) / 1e9
            rates[is_during] += sum(int(part[:, 1].sum()) for part in chosen) / seconds
            longest = max(float(np.diff(part[:, 0]).max()) for part in chosen if len(part) > 1)
            pauses[is_during] = max(pauses[is_during], longest / 1e6)
    return Cost(rates[True], rates[False], pauses[True], pauses[False])
