"""Jobs that lose slot workers or task managers continue from their last checkpoint, as if nothing had happened.

Each job runs slowly, so that it cannot end by itself, until the test has done to it what it wanted and lets it `go`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from processes import frozen, held, parent_of
from system import Cluster, beginnings, completed, given, highest_counts, recovering, wait_until, write_job

pytestmark = pytest.mark.process

RECORDS, KEYS = 12_000, 7

JOB = """
import time
from pathlib import Path

def slowly(number):
    if not Path("{go}").exists():
        time.sleep(0.02)
    return (number % {keys}, 1)

def note(counted):
    with open(Path("{folder}") / str(counted[0]), "a") as file:
        file.write(f"{{counted[1]}}\\n")
    return counted

env.from_sequence(1, {records}).map(slowly).key_by(lambda t: t[0]) \\
    .reduce(lambda a, b: (a[0], a[1] + b[1])).map(note).filter(lambda t: False).print()
env.execute("counts")
"""

LARGE = """
import os
import time

def large(number):
    time.sleep(0.01)
    return (0, os.urandom(20_000).hex())

env.from_sequence(1, 10**9).map(large).key_by(lambda t: t[0]).reduce(lambda a, b: b).filter(lambda t: False).print()
env.execute("large")
"""


def expected() -> dict[int, int]:
    return {key: len(range(key or KEYS, RECORDS + 1, KEYS)) for key in range(KEYS)}


def submit(cluster: Cluster, tmp_path: Path, *options: str) -> tuple[str, Path, Path]:
    """Returns the job, the folder of its results and that of its checkpoints."""
    results, checkpoints = tmp_path / "results", tmp_path / "checkpoints"
    results.mkdir()
    job = write_job(tmp_path, "counts", JOB.format(keys=KEYS, records=RECORDS, folder=results, go=tmp_path / "go"))
    return cluster.submit(job, *given(*recovering(checkpoints), *options), parallelism=2), results, checkpoints


def wait_for_state(cluster: Cluster, job_id: str, results: Path) -> None:
    """Waits until every key was counted, and a checkpoint contains it."""
    wait_until(lambda: sum(file.stat().st_size > 0 for file in results.iterdir()) == KEYS, "counts of all keys")
    cluster.wait_for_checkpoint(job_id)


def ends_exactly(cluster: Cluster, job_id: str, results: Path) -> None:
    """Lets the job go: it counts every record once, and has not started over."""
    (results.parent / "go").touch()
    cluster.wait_for(job_id, "FINISHED")
    assert highest_counts(results) == expected()
    assert beginnings(results) == {1}


@pytest.mark.parametrize("storage", ["filesystem", "jobmanager"])
def test_a_killed_slot_worker_loses_and_duplicates_nothing(cluster: Cluster, tmp_path: Path, storage: str) -> None:
    job_id, results, checkpoints = submit(cluster, tmp_path, f"execution.checkpointing.storage={storage}")
    for _ in range(2):
        wait_for_state(cluster, job_id, results)
        cluster.lose_a_worker(job_id)
    ends_exactly(cluster, job_id, results)
    wait_until(lambda: not completed(checkpoints), "the checkpoints of the finished job to be gone")
    wait_until(lambda: cluster.free_slots() == 4, "the slots to be free again")


def test_a_killed_enumerator_process_loses_and_duplicates_nothing(cluster: Cluster, tmp_path: Path) -> None:
    """Once while the job runs, and once more while the new process starts."""
    others = set(cluster.enumerators())
    job_id, results, _ = submit(cluster, tmp_path)
    wait_for_state(cluster, job_id, results)
    for _ in range(2):
        (enumerators,) = wait_until(lambda: set(cluster.enumerators()) - others, "an enumerator process")
        cluster.kill(enumerators)
        others.add(enumerators)
    cluster.wait_for_restart(job_id)
    ends_exactly(cluster, job_id, results)


def test_a_killed_task_manager_is_replaced_and_nothing_is_lost(own_cluster: Cluster, tmp_path: Path) -> None:
    job_id, results, _ = submit(own_cluster, tmp_path)
    wait_for_state(own_cluster, job_id, results)
    own_cluster.kill(parent_of(own_cluster.workers()[0]))
    own_cluster.wait_for_restart(job_id)
    ends_exactly(own_cluster, job_id, results)


def test_workers_that_lost_connection_to_each_other_continue_together(own_cluster: Cluster, tmp_path: Path) -> None:
    job_id, results, _ = submit(own_cluster, tmp_path, "task.cancellation.timeout=1h")
    wait_for_state(own_cluster, job_id, results)
    before = own_cluster.workers()
    with held(before[0]):  # merely frozen, it would be killed as soon as the others lose it
        own_cluster.wait_for(job_id, "RESTARTING")  # and it stays so: the frozen tasks cannot end
    own_cluster.wait_for_restart(job_id)
    own_cluster.wait_for(job_id, "RUNNING")
    assert own_cluster.workers() == before
    ends_exactly(own_cluster, job_id, results)


def test_a_damaged_checkpoint_ends_the_job_with_the_files_name(cluster: Cluster, tmp_path: Path) -> None:
    """Restarts would find it damaged each time, and an older one would repeat what was committed since."""
    job = write_job(tmp_path, "large", LARGE)
    options = ("execution.checkpointing.interval=1h", f"execution.checkpointing.dir={tmp_path / 'checkpoints'}")
    job_id = cluster.submit_running(job, *given(*options))
    wait_until(lambda: cluster.records(job_id) > 0, "state")
    cluster.cli("checkpoint", "-m", cluster.rest, job_id)
    (file,) = (tmp_path / "checkpoints").rglob("*.arrow")
    file.write_bytes(bytes(file.stat().st_size))
    (worker,) = cluster.workers()
    cluster.kill(worker)
    cluster.wait_for(job_id, "FAILED")
    history = cluster.exceptions(job_id)
    failures = [entry["stacktrace"] for entry in history]
    assert len(failures) == 2, "one restart, which found the damage"
    assert f"{file.as_uri()}: is damaged" in failures[0]
    assert "checkpoint 1 at" in failures[0]


def test_a_function_that_fails_occasionally_does_not_end_the_job(cluster: Cluster, tmp_path: Path) -> None:
    marker, results = tmp_path / "failed", tmp_path / "results"
    results.mkdir()
    body = JOB.replace(
        "    return (number",
        f"    if number == 100 and not Path('{marker}').exists():\n"
        f"        Path('{marker}').touch()\n"
        "        raise OSError('the service is away')\n"
        "    return (number",
    ).format(keys=KEYS, records=RECORDS, folder=results, go=marker)
    job = write_job(tmp_path, "shaky", body)
    options = ("execution.checkpointing.interval=200ms", f"execution.checkpointing.dir={tmp_path / 'chk'}")
    job_id = cluster.submit(job, *given(*options), parallelism=2)
    cluster.wait_for(job_id, "FINISHED")
    assert highest_counts(results) == expected()
    (entry,) = cluster.exceptions(job_id)
    assert "the service is away" in entry["stacktrace"]


def test_only_the_failed_pipeline_restarts_and_its_splits_are_read_again(cluster: Cluster, tmp_path: Path) -> None:
    results, checkpoints = tmp_path / "results", tmp_path / "checkpoints"
    results.mkdir()
    body = f"""
    import os
    import time
    from pathlib import Path

    def note(number):
        if not Path("{tmp_path / "go"}").exists():
            time.sleep(0.02)
        with open(Path("{results}") / str(os.getpid()), "a") as file:
            file.write(f"{{number}}\\n")
        return number

    env.from_sequence(1, {RECORDS}).map(note).filter(lambda t: False).print()
    env.execute("pipelines")
    """
    job = write_job(tmp_path, "pipelines", body)
    options = ("execution.checkpointing.interval=200ms", f"execution.checkpointing.dir={checkpoints}")
    job_id = cluster.submit(job, *given(*options), parallelism=2)
    cluster.wait_for_checkpoint(job_id)
    cluster.kill(cluster.workers()[0])
    wait_until(lambda: max(cluster.attempts(job_id)) == 1, "a new attempt")
    (tmp_path / "go").touch()
    cluster.wait_for(job_id, "FINISHED")
    assert sorted(cluster.attempts(job_id)) == [0, 1]
    seen = [int(line) for file in results.iterdir() for line in file.read_text().splitlines()]
    assert set(seen) == set(range(1, RECORDS + 1))
    assert len(seen) < 2 * RECORDS


def test_a_job_is_suspended_before_it_may_be_reported_as_failed_and_keeps_its_checkpoint(
    lone_cluster: Cluster, tmp_path: Path
) -> None:
    """Without its dispatcher, a job manager suspends its jobs, and later resumes them.

    One that is lost leaves a name.
    """
    cluster = lone_cluster
    job_id, results, _ = submit(cluster, tmp_path)
    wait_for_state(cluster, job_id, results)
    with frozen(*cluster.service_pids("dispatcher")):
        wait_until(lambda: not cluster.workers(), "the job manager to stop the job by itself")
    cluster.wait_for_restart(job_id)
    assert beginnings(results) == {1}
    with frozen(*cluster.service_pids("jobmanager")):
        wait_until(lambda: not cluster.workers(), "the task managers to stop the job of a job manager that is away")
        cluster.wait_for(job_id, "FAILED")
    message = cluster.exceptions(job_id)[0]["stacktrace"]
    kept = Path(message.partition("heard of is file://")[2].partition(":")[0])
    assert (kept / "_metadata.json").exists(), message
    wait_until(lambda: cluster.get("/overview")["slots-available"] == 4, "the thawed job manager to have let go")
    assert (kept / "_metadata.json").exists(), "the job was stopped, not cancelled"
