"""Each golden pipeline, uninterrupted, checkpointed at parallelism 2, and restored at 3 and at 1: the same output.

The checkpointed run is stopped with a savepoint in the middle; its committed files and those of either restored run
together must contain what the uninterrupted run wrote, every record once.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from golden_restores import KEYS, PIPELINES, N
from system import Cluster, given, wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow]

PROGRAM = Path(__file__).with_name("golden_restores.py")
BLOCKS = 6
RECORDS = {  # that are written, where that is not one for each input record
    "list_and_map": KEYS,
    "tumbling_windows": BLOCKS * 5 * KEYS,
    "session_windows": BLOCKS * KEYS,
    "column_windows": BLOCKS * (13 + 1) * KEYS,
    "event_timers": BLOCKS * 2 * KEYS,
    "connected_timers": BLOCKS * 2 * KEYS,
    "window_join": BLOCKS * 10 * (4 * 3**2 + 19 * 2**2),  # of 50 numbers, 4 keys have three and 19 have two
    "interval_join": N + N - BLOCKS * KEYS,
}
RECORDS["window_join_of_pairs"] = RECORDS["window_join"]
RATE = 25  # a run is stopped long before its end


def written(folder: Path) -> Counter[str]:
    """The visible records, as JSON."""
    files = [file for file in folder.rglob("*") if file.is_file() and not file.name.startswith(".")]
    return Counter(line for file in files for line in file.read_text().splitlines())


def hidden(folder: Path) -> list[str]:
    return [file.name for file in folder.rglob(".*")]


def submit(cluster: Cluster, name: str, output: Path, parallelism: int, *options: str, rate: str = "") -> str:
    return cluster.submit(PROGRAM, *given(*options), parallelism=parallelism, arguments=(name, str(output), rate))


def stopped_half_way(cluster: Cluster, name: str, folder: Path, *options: str) -> str:
    """Runs at parallelism 2 with checkpoints until a part is done; returns the savepoint's path."""
    directory = f"execution.checkpointing.dir={folder / 'checkpoints'}"
    wanted = ("execution.checkpointing.interval=100ms", directory, *options)
    job_id = submit(cluster, name, folder / "first", 2, *wanted, rate=str(RATE))
    cluster.wait_for(job_id, "RUNNING")
    wait_until(lambda: cluster.records(job_id) > RATE, "records to flow")
    if name == "broadcast_rules":
        wait_until(lambda: "FINISHED" in statuses(cluster, job_id), "the rules' source to end")
    stopped = cluster.cli("stop", "-m", cluster.rest, "-p", str(folder / "savepoints"), job_id)
    assert cluster.state(job_id) == "FINISHED", stopped.stdout
    (savepoint,) = (folder / "savepoints").iterdir()
    assert str(savepoint) in stopped.stdout
    return str(savepoint)


def statuses(cluster: Cluster, job_id: str) -> list[str]:
    return [vertex["status"] for vertex in cluster.get(f"/jobs/{job_id}")["vertices"]]


def normal(name: str, records: Counter[str]) -> Counter[Any]:
    """What has to be the same in every run: some records also describe the run."""
    parsed = [json.loads(line) for line in records.elements()]
    if name in ("broadcast_rules", "union_list"):
        return Counter(record[0] for record in parsed)
    return Counter(map(json.dumps, parsed))


def check_restored(name: str, before: Counter[str], after: Counter[str]) -> None:
    """Checks the state in the output of the restored run."""
    records = [json.loads(line) for line in after.elements()]
    if name == "broadcast_rules":
        assert all(rule == f"rule {number % KEYS}" for number, rule in records)
    if name == "union_list":
        totals = {total for _, total in records if total is not None}
        assert totals == {sum(before.values())}


@pytest.mark.parametrize("name", [pipeline.__name__ for pipeline in PIPELINES])
def test_uninterrupted_checkpointed_and_restored_runs_have_the_same_output(
    cluster: Cluster, tmp_path: Path, name: str
) -> None:
    straight = submit(cluster, name, tmp_path / "straight", 1)
    cluster.wait_for(straight, "FINISHED")
    expected = normal(name, written(tmp_path / "straight"))
    assert sum(expected.values()) == RECORDS.get(name, N)
    savepoint = stopped_half_way(cluster, name, tmp_path)
    before = written(tmp_path / "first")
    if name not in (*RECORDS, "two_inputs"):  # of which most is written at the end
        assert 0 < sum(before.values()) < N, "the savepoint is in the middle"
    for parallelism in (3, 1):
        output = tmp_path / f"at {parallelism}"
        options = (f"execution.state-recovery.path={savepoint}", "execution.checkpointing.interval=100ms")
        job_id = submit(cluster, name, output, parallelism, *options)
        cluster.wait_for(job_id, "FINISHED")
        after = written(output)
        assert normal(name, before + after) == expected
        check_restored(name, before, after)
        assert not hidden(output)
    assert written(tmp_path / "first") == before
    assert not hidden(tmp_path / "first")
