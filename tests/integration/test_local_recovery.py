"""A killed slot worker recovers from copies of its state on its own host, if the storage has lost the files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import frozen
from system import (
    Cluster,
    beginnings,
    files_in,
    given,
    highest_counts,
    recovering,
    running_cluster,
    wait_until,
    write_job,
)

pytestmark = pytest.mark.process

RECORDS, KEYS = 12_000, 1_500

JOB = """
import hashlib
import time
from pathlib import Path
from millstream.datastream.functions import KeyedProcessFunction

def slowly(number):
    if number % {part} > {keys} and not Path("{go}").exists():  # each of both subtasks has seen all keys
        time.sleep(0.03)
    return (number % {keys}, number)

class Counting(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state("count", tuple[int, str])

    def process_element(self, value, ctx):
        count = (self.count.value() or (0, ""))[0] + 1
        self.count.update((count, hashlib.sha256(str(value).encode()).hexdigest()))
        with open(Path("{folder}") / str(value[0]), "a") as file:
            file.write(f"{{count}}\\n")
        return []

env.from_sequence(0, {records} - 1).map(slowly, output_type=tuple[int, int]) \\
    .key_by(lambda t: t[0]).process(Counting()).print()
env.execute("counts")
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One task manager with two slots, which keeps local copies in a folder of its own."""
    directory = tmp_path_factory.mktemp("cluster")
    options = {
        "execution.checkpointing.local-backup.enabled": "true",
        "execution.checkpointing.local-backup.dirs": str(directory / "local"),
    }
    with running_cluster(directory, 1, 2, **options) as made:
        yield made
    assert not copies(made)


def copies(cluster: Cluster) -> list[Path]:
    return [path for path in files_in(cluster.directory / "local") if path.name != ".lock"]


def subtasks_with_files(checkpoints: Path) -> set[int]:
    """The subtasks whose counts are in a file, not inside the metadata, in every complete checkpoint."""
    found: list[set[int]] = []
    for metadata in files_in(checkpoints, "_metadata.json"):
        try:
            operators = json.loads(metadata.read_text())["operators"]
        except FileNotFoundError:  # subsumed meanwhile
            continue
        states = [state for operator in operators for state in operator["states"] if state["name"] == "count"]
        found.append({file["subtask"] for state in states for file in state["files"] if "inline" not in file})
    return set.intersection(*found) if found else set()


def lose_the_files_and_a_worker(cluster: Cluster, checkpoints: Path) -> None:
    """Deletes all state files while no worker can complete another checkpoint; then kills one of the workers."""
    wait_until(lambda: subtasks_with_files(checkpoints) == {0, 1}, "a complete checkpoint with all state in files")
    workers = cluster.workers()
    with frozen(*workers):
        for file in files_in(checkpoints, "*.arrow"):
            file.unlink(missing_ok=True)  # the job manager still deletes what is subsumed
        cluster.kill(workers[0])


@pytest.mark.parametrize("from_local", [True, False])
def test_a_lost_storage_is_tolerated_with_local_copies(cluster: Cluster, tmp_path: Path, from_local: bool) -> None:
    results, checkpoints, go = tmp_path / "results", tmp_path / "checkpoints", tmp_path / "go"
    results.mkdir()
    body = JOB.format(keys=KEYS, records=RECORDS, part=RECORDS // 2, folder=results, go=go)
    job = write_job(tmp_path, "counts", body)
    options = (
        *recovering(checkpoints, attempts=2),
        "execution.batch.max-rows=16",  # otherwise a batch that was started at full speed would take its time
        f"execution.state-recovery.from-local={str(from_local).lower()}",
    )
    job_id = cluster.submit_running(job, *given(*options), parallelism=2)
    lose_the_files_and_a_worker(cluster, checkpoints)
    if from_local:
        cluster.wait_for_restart(job_id)
        go.touch()
        cluster.wait_for(job_id, "FINISHED")
        assert highest_counts(results) == dict.fromkeys(range(KEYS), RECORDS // KEYS)
        assert min(beginnings(results)) == 1
    else:
        cluster.wait_for(job_id, "FAILED")
        assert "does not exist" in str(cluster.get(f"/jobs/{job_id}/exceptions"))
    wait_until(lambda: not copies(cluster), "the copies of a job that is over to be gone")
