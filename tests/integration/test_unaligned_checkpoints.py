"""Under backpressure, unaligned checkpoints complete while aligned ones still wait; nothing is lost or duplicated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from system import Cluster, beginnings, files_in, given, highest_counts, recovering, wait_until, write_job

pytestmark = [pytest.mark.process, pytest.mark.alone]

RECORDS, KEYS = 20_000, 7

JOB = """
import time
from pathlib import Path

def note(counted):
    if Path("{slow}").exists():
        time.sleep(0.02)
    with open(Path("{folder}") / str(counted[0]), "a") as file:
        file.write(f"{{counted[1]}}\\n")
    return counted

env.from_sequence(1, {records}).map(lambda number: (number % {keys}, 1, "x" * 200)).key_by(lambda t: t[0]) \\
    .reduce(lambda a, b: (a[0], a[1] + b[1], "")).map(note).filter(lambda t: False).print()
env.execute("backpressured")
"""

ALIGNED = ("execution.checkpointing.unaligned.enabled=false",)
UNALIGNED = ("execution.checkpointing.unaligned.enabled=true",)
TIMED = (*UNALIGNED, "execution.checkpointing.aligned-checkpoint-timeout=100ms")


class Run:
    """One submission, with folders of its own."""

    def __init__(self, cluster: Cluster, folder: Path, options: tuple[str, ...]) -> None:
        folder.mkdir()
        self.results, self.checkpoints, self.slow = folder / "results", folder / "checkpoints", folder / "slow"
        self.results.mkdir()
        self.slow.touch()
        body = JOB.format(keys=KEYS, records=RECORDS, folder=self.results, slow=self.slow)
        wanted = (
            *recovering(self.checkpoints),
            "execution.checkpointing.num-retained=1000",
            "execution.batch.max-rows=64",
            "taskmanager.memory.segment-size=16kb",
            "taskmanager.network.memory.buffer-debloat.enabled=false",  # so that there is something to overtake
            *options,
        )
        self.job_id = cluster.submit(write_job(folder, "backpressured", body), *given(*wanted), parallelism=2)

    def completed(self) -> list[Path]:
        return files_in(self.checkpoints, "_metadata.json")


def records_on_their_way(metadata: Path) -> int:
    """The number of buffers in the checkpoint."""
    states: list[dict[str, Any]] = [s for o in json.loads(metadata.read_text())["operators"] for s in o["states"]]
    return sum(file["rows"] for state in states if state["kind"] == "in-flight" for file in state["files"])


@pytest.mark.parametrize("options", [UNALIGNED, TIMED], ids=["at once", "after a timeout"])
def test_a_backpressured_job_is_checkpointed_quickly_and_continues_exactly(
    cluster: Cluster, tmp_path: Path, options: tuple[str, ...]
) -> None:
    patient, quick = Run(cluster, tmp_path / "patient", ALIGNED), Run(cluster, tmp_path / "quick", options)
    for run in (patient, quick):
        cluster.wait_for(run.job_id, "RUNNING")
    wait_until(lambda: any(map(records_on_their_way, quick.completed())), "a checkpoint with records in flight")
    wait_until(
        lambda: len(quick.completed()) >= 2 * len(patient.completed()) + 4,
        "many more checkpoints than aligned ones, each of which waits for all that is queued",
    )
    cluster.cancel(patient.job_id)
    wait_until(lambda: len(cluster.workers()) == 2, "the cancelled job's workers to be gone")
    cluster.lose_a_worker(quick.job_id)
    quick.slow.unlink()
    cluster.wait_for(quick.job_id, "FINISHED")
    assert highest_counts(quick.results) == {key: len(range(key or KEYS, RECORDS + 1, KEYS)) for key in range(KEYS)}
    assert beginnings(quick.results) == {1}
