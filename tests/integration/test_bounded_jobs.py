"""Bounded jobs with checkpoints: tasks that finish before others, failures after that, and the last checkpoint.

A job that the test has to act on before its end runs slowly until the test lets it `go`.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from system import Cluster, given, recovering, wait_until, write_job

pytestmark = pytest.mark.process

SHORT, LONG, KEYS = 100, 8_000, 5

JOB = """
import time
from pathlib import Path

def noted(name, line):
    with open(Path("{folder}") / name, "a") as file:
        file.write(f"{{line}}\\n")

def short(number):
    noted("short", number)
    return (number % {keys}, 1)

def slowly(number):
    if not Path("{go}").exists():
        time.sleep(0.03)
    return (number % {keys}, 1)

def note(counted):
    noted("counts", f"{{counted[0]}} {{counted[1]}}")
    return counted

env.from_sequence(1, {short}).map(short).name("short") \\
    .union(env.from_sequence(1, {long}).map(slowly).name("long")) \\
    .key_by(lambda t: t[0]).reduce(lambda a, b: (a[0], a[1] + b[1])).map(note).filter(lambda t: False).print()
env.execute("two sources")
"""


def submit(cluster: Cluster, tmp_path: Path, interval: str, long: int = LONG) -> tuple[str, Path, Path]:
    """Returns the job, the folder of its results and that of its checkpoints."""
    results, checkpoints = tmp_path / "results", tmp_path / "checkpoints"
    results.mkdir()
    body = JOB.format(folder=results, keys=KEYS, short=SHORT, long=long, go=tmp_path / "go")
    job = write_job(tmp_path, "two_sources", body)
    return cluster.submit(job, *given(*recovering(checkpoints, interval)), parallelism=2), results, checkpoints


def highest(results: Path) -> dict[int, int]:
    """The highest count of each key: more than without failures if a record counted twice, less if one was lost."""
    counts: dict[int, int] = {}
    for line in (results / "counts").read_text().splitlines():
        key, count = map(int, line.split())
        counts[key] = max(count, counts.get(key, 0))
    return counts


def expected(long: int = LONG) -> dict[int, int]:
    return dict(Counter(n % KEYS for end in (SHORT, long) for n in range(1, end + 1)))


def states_of(cluster: Cluster, job_id: str, name: str) -> set[str]:
    (vertex,) = [v for v in cluster.get(f"/jobs/{job_id}")["vertices"] if name in v["name"]]
    return {subtask["status"] for subtask in cluster.get(f"/jobs/{job_id}/vertices/{vertex['id']}")["subtasks"]}


def test_tasks_that_had_finished_do_not_run_again_and_the_counts_are_exact(cluster: Cluster, tmp_path: Path) -> None:
    job_id, results, _ = submit(cluster, tmp_path, "100ms")
    wait_until(lambda: states_of(cluster, job_id, "short") == {"FINISHED"}, "the short source to finish")
    cluster.wait_for_checkpoint(job_id)
    cluster.lose_a_worker(job_id)
    (tmp_path / "go").touch()
    cluster.wait_for(job_id, "FINISHED")
    assert highest(results) == expected()
    assert len((results / "short").read_text().splitlines()) == SHORT, "it was read once"


def test_commits_that_fail_are_retried_before_the_job_ends(cluster: Cluster, tmp_path: Path) -> None:
    tried = tmp_path / "tried"
    body = f"""
    from millstream.datastream.functions import MapFunction

    class Committing(MapFunction):
        def map(self, value):
            return value

        def notify_checkpoint_complete(self, checkpoint_id):
            with open("{tried}", "a") as file:
                file.write("x")
            with open("{tried}") as file:
                if len(file.read()) < 3:
                    raise OSError("the broker is away")

    env.from_sequence(1, 10).map(Committing()).filter(lambda n: False).print()
    env.execute("committing")
    """
    job = write_job(tmp_path, "committing", body)
    job_id = cluster.submit(job, "-D", "execution.checkpointing.interval=1h")
    cluster.wait_for(job_id, "FINISHED")
    assert tried.read_text() == "xxx"
    assert cluster.exceptions(job_id) == []


def test_the_last_checkpoint_does_not_wait_for_the_interval(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    job_id, results, checkpoints = submit(cluster, tmp_path, "1h", long=200)
    cluster.wait_for(job_id, "FINISHED")
    assert highest(results) == expected(200)
    assert checkpoints.exists(), "nothing but the last checkpoint makes it"


UNITED = """
import time
from pathlib import Path
from millstream.datastream.functions.checkpointed import CheckpointedFunction
from millstream.datastream.functions import MapFunction

FOLDER, HALF = Path("{folder}"), {half}

class Tally(MapFunction, CheckpointedFunction):
    def open(self, runtime_context):
        self.subtask = runtime_context.get_index_of_this_subtask()
        with open(FOLDER / "restored", "a") as file:
            file.write(f"{{runtime_context.get_attempt_number()}} {{self.count}} {{self.united}}\\n")

    def initialize_state(self, context):
        store = context.get_operator_state_store()
        self.mine, self.union = store.get_list_state("mine", int), store.get_union_list_state("everyones", int)
        self.count, self.united = sum(self.mine.get()), sum(self.union.get())

    def snapshot_state(self, context):
        self.mine.update([self.count])
        self.union.update([self.count])

    def map(self, number):
        if not (FOLDER / "go").exists():
            time.sleep(0.005 if number <= 200 else 0.03 if number > HALF else 0)
        self.count += 1
        return number

    def close(self):
        (FOLDER / f"ended-{{self.subtask}}").write_text(str(self.count))

env.from_sequence(1, 2 * HALF).map(Tally()).key_by(lambda n: n % 3).reduce(max).filter(lambda n: False).print()
env.execute("united")
"""


def test_subtasks_with_a_union_list_end_with_the_same_checkpoint(cluster: Cluster, tmp_path: Path) -> None:
    """No checkpoint completes without the entries of the subtask that ended first; the job ends nevertheless."""
    half = 4_000
    job = write_job(tmp_path, "united", UNITED.format(folder=tmp_path, half=half))
    job_id = cluster.submit(job, *given(*recovering(tmp_path / "checkpoints", "100ms", attempts=1)), parallelism=2)

    def reported() -> bool:
        history = cluster.get(f"/jobs/{job_id}/checkpoints")["history"]
        failures = [entry["failure_message"] for entry in history if entry["status"] == "FAILED"]
        return any("1 of 2 subtasks with the union list 'everyones' of operator 'Map'" in text for text in failures)

    wait_until(reported, "a checkpoint that would miss entries")
    cluster.lose_a_worker(job_id)
    (tmp_path / "go").touch()
    cluster.wait_for(job_id, "FINISHED")
    restored = [tuple(map(int, line.split())) for line in (tmp_path / "restored").read_text().splitlines()]
    again = [(mine, united) for attempt, mine, united in restored if attempt == 1]
    assert [united for _, united in again] == [sum(mine for mine, _ in again)] * 2
    assert sum(int(file.read_text()) for file in tmp_path.glob("ended-*")) == 2 * half
