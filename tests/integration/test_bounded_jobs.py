"""Bounded jobs with checkpoints: tasks that finish before others, failures behind that, and the last checkpoint."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from system import Cluster, completed, wait_until, write_job

SHORT, LONG, KEYS = 100, 4_000, 5

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
    time.sleep(0.002)
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
    """Answers the job, the folder of its results and that of its checkpoints."""
    results, checkpoints = tmp_path / "results", tmp_path / "checkpoints"
    results.mkdir()
    job = write_job(tmp_path, "two_sources", JOB.format(folder=results, keys=KEYS, short=SHORT, long=long))
    wanted = {
        "execution.checkpointing.interval": interval,
        "execution.checkpointing.dir": str(checkpoints),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "5",
        "restart-strategy.fixed-delay.delay": "100ms",
    }
    arguments = [argument for key, value in wanted.items() for argument in ("-D", f"{key}={value}")]
    return cluster.submit(job, *arguments, parallelism=2), results, checkpoints


def highest(results: Path) -> dict[int, int]:
    """The highest count of each key: more than the straight run's if a record counted twice, less if one was lost."""
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
    job_id, results, checkpoints = submit(cluster, tmp_path, "100ms")
    wait_until(lambda: states_of(cluster, job_id, "short") == {"FINISHED"}, "the short source to finish")
    for _ in range(2):
        seen = completed(checkpoints)
        wait_until(lambda seen=seen: completed(checkpoints) - seen, "a checkpoint behind its end")
    assert cluster.state(job_id) == "RUNNING"
    cluster.kill(cluster.workers()[0])
    cluster.wait_for(job_id, "RESTARTING")
    cluster.wait_for(job_id, "FINISHED")
    assert highest(results) == expected()
    assert len((results / "short").read_text().splitlines()) == SHORT, "it was read once"


def test_commits_that_fail_are_tried_again_before_the_job_ends(cluster: Cluster, tmp_path: Path) -> None:
    tried = tmp_path / "tried"
    job = write_job(
        tmp_path,
        "committing",
        f"""
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
        """,
    )
    job_id = cluster.submit(job, "-D", "execution.checkpointing.interval=1h")
    cluster.wait_for(job_id, "FINISHED")
    assert tried.read_text() == "xxx"
    assert cluster.get(f"/jobs/{job_id}/exceptions")["exceptionHistory"]["entries"] == []


def test_the_last_checkpoint_does_not_wait_for_the_interval(cluster: Cluster, tmp_path: Path) -> None:
    job_id, results, checkpoints = submit(cluster, tmp_path, "1h", long=200)
    cluster.wait_for(job_id, "FINISHED")
    assert highest(results) == expected(200)
    assert checkpoints.exists(), "nothing but the last checkpoint makes it"
