"""The cost of checkpoints for a job with a million keys (int64 to a pair of int64) on the heap, in two slots.

The job counts at full speed. Its sink records when batches arrive; the pause is the longest time between two batches
from 100 ms before a capture to the notification that the checkpoint is complete, the drop is that of records/s in the
same time, compared with the time between checkpoints of the same run. Then a job that modifies only 1 % of the key
groups takes incremental checkpoints: what they write is compared with what a full one does.
"""

from __future__ import annotations

import itertools
import statistics

from keyed_state import cost_of, keyed_state_job
from rows import Row, Scale, at_most, check

KEYS = 1_000_000
HOT_GROUPS = 2  # of the job's 200
CHECKPOINTS = 4


def measure(scale: Scale) -> list[Row]:
    keys = scale.of(KEYS)
    return [*_full(keys), *_incremental(keys)]


def _full(keys: int) -> list[Row]:
    with keyed_state_job(keys, "5 s", options={"execution.checkpointing.min-pause": "2 s"}) as job:
        job.wait_for_checkpoints(CHECKPOINTS)
        sizes = [sum(file.size for file in metadata.files()) for metadata in job.metadata().values()]
        job.stop()
        cost = cost_of(job.run.samples("beats"), job.windows())
        durations = job.durations()
    rates = f"{cost.rate_during / 1e6:.2f} M against {cost.rate_between / 1e6:.2f} M records/s"
    return [
        Row(
            f"longest pause during checkpoints of {keys:,} keys", cost.pause_during, "ms", at_most(100),
            note=f"{cost.pause_between:.0f} ms between them",
        ),
        Row("drop of records/s during checkpoints", cost.drop, "%", at_most(20), note=rates),
        Row("duration of a checkpoint, median", statistics.median(durations), "s", note=_runs(durations)),
        Row("size of a checkpoint", statistics.median(sizes) / 1e6, "MB", note=f"{sizes[0] / keys:.1f} bytes a key"),
    ]  # fmt: skip


def _incremental(keys: int) -> list[Row]:
    incremental = {"execution.checkpointing.incremental": "true"}
    with keyed_state_job(keys, "2 s", HOT_GROUPS, incremental) as job:
        job.wait_for_checkpoints(CHECKPOINTS)
        contents = [{file.path: file.size for file in metadata.files()} for metadata in job.metadata().values()]
        job.stop()
        durations = job.durations()
    whole = sum(contents[-1].values())
    written = [
        sum(size for path, size in after.items() if path not in before)
        for before, after in itertools.pairwise(contents)
    ]
    # The first that holds every key may follow one that was taken while keys were still loaded.
    settled = written[1:]
    check(all(settled), "the incremental checkpoints wrote nothing, although keys were modified")
    share = 100 * statistics.median(settled) / whole
    return [
        Row(
            "written by an incremental checkpoint, 1 % of the key groups modified", share, "% of the full size",
            at_most(4), note=f"{statistics.median(settled) / 1e6:.2f} MB of {whole / 1e6:.1f} MB",
        ),
        Row("duration of an incremental checkpoint, median", statistics.median(durations[1:]), "s"),
    ]  # fmt: skip


def _runs(seconds: list[float]) -> str:
    return "runs: " + ", ".join(f"{each:.2f}" for each in seconds)
