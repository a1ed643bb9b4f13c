"""Jobs continue at another parallelism, on request and as task managers come and go, without lost or duplicated
records.

Each job counts numbers by key into files, and runs slowly until the test has done what it wanted and lets it `go`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from system import QUICK, Cluster, given, recovering, running_cluster, wait_until, write_job

pytestmark = pytest.mark.process

RECORDS, KEYS = 3_000, 7
JOB = """
import time
from pathlib import Path

from millstream.datastream.connectors.datagen import DataGeneratorSource
from millstream.datastream.connectors.file_system import Encoder, FileSink, RollingPolicy

def counted(number):
    if not Path("{go}").exists():
        time.sleep(0.02)
    return (number % {keys}, 1)

numbers = env.from_source(DataGeneratorSource(int, rate_per_second=1_000), None, "numbers")
counts = numbers.map(counted).key_by(lambda t: t[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))
first = counts.filter(lambda t: t[1] <= {records} // {keys})
encoder = Encoder(lambda counted: f"{{counted[0]}},{{counted[1]}}")
sink = FileSink.for_row_format("{out}", encoder).with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
first.sink_to(sink).uid("files")
env.execute("counted")
"""
EXPECTED = Counter((key, count) for key in range(KEYS) for count in range(1, RECORDS // KEYS + 1))


class Job:
    """A running job, and its output."""

    def __init__(self, cluster: Cluster, folder: Path, *options: str, parallelism: int = 1) -> None:
        self.cluster = cluster
        self._out, self._go = folder / "out", folder / "go"
        body = JOB.format(out=self._out, go=self._go, keys=KEYS, records=RECORDS)
        flags = given(*recovering(folder / "checkpoints", "100ms"), *options)
        self.id = cluster.submit(write_job(folder, "counted", body), *flags, parallelism=parallelism)
        cluster.wait_for(self.id, "RUNNING")

    def parallelisms(self) -> set[int]:
        return {vertex["parallelism"] for vertex in self.cluster.get(f"/jobs/{self.id}")["vertices"]}

    def wait_for_parallelism(self, parallelism: int) -> None:
        wait_until(lambda: self.parallelisms() == {parallelism}, f"parallelism {parallelism}")
        self.cluster.wait_for(self.id, "RUNNING")

    def events(self) -> list[str]:
        return [event["kind"] for event in self.cluster.get(f"/jobs/{self.id}/events")["events"]]

    def visible(self) -> Counter[tuple[int, int]]:
        lines = [line for file in self._out.glob("part-*") for line in file.read_text().splitlines()]
        return Counter((int(key), int(count)) for key, count in (line.split(",") for line in lines))

    def shows_everything_once(self) -> None:
        self._go.touch()
        wait_until(lambda: self.visible().total() >= EXPECTED.total(), "all records to be visible")
        self.cluster.wait_for_checkpoint(self.id)
        assert self.visible() == EXPECTED
        wait_until(lambda: not list(self._out.glob(".*")), "hidden files to be gone")


def test_a_job_is_rescaled_up_and_down_under_load_and_writes_every_record_once(
    cluster: Cluster, tmp_path: Path
) -> None:
    job = Job(cluster, tmp_path)
    for parallelism in (2, 1):
        cluster.wait_for_checkpoint(job.id)
        done = cluster.cli("rescale", "-m", cluster.rest, job.id, "-p", str(parallelism))
        assert done.stdout == f"The job runs at parallelism {parallelism}.\n"
        assert job.parallelisms() == {parallelism}
    assert job.events() == ["RESCALE_STARTED", "RESCALE_COMPLETED"] * 2
    wait_until(lambda: cluster.free_slots() == 3, "the slot that is not needed any more")
    job.shows_everything_once()


def test_requirements_are_changed_over_rest(cluster: Cluster, tmp_path: Path) -> None:
    job = Job(cluster, tmp_path)
    path = f"/jobs/{job.id}/resource-requirements"
    wanted = cluster.get(path)
    assert {requirement["parallelism"]["upperBound"] for requirement in wanted.values()} == {1}
    for requirement in wanted.values():
        requirement["parallelism"]["upperBound"] = 3
    assert cluster.request("PUT", path, json.dumps(wanted).encode()) == (200, {})
    job.wait_for_parallelism(3)
    assert cluster.get(path) == wanted
    status, response = cluster.request("PUT", path, json.dumps({"x": {"parallelism": 1}}).encode())
    assert status == 400
    assert "lowerBound" in response["errors"][0]
    job.shows_everything_once()


def test_a_request_for_more_slots_than_available_leaves_the_job_unchanged(cluster: Cluster, tmp_path: Path) -> None:
    job = Job(cluster, tmp_path, "slot.request.timeout=1 s")
    done = cluster.cli("rescale", "-m", cluster.rest, job.id, "-p", "9", check=False)
    assert done.returncode != 0
    assert "1 of 9 slots" in done.stderr
    assert job.parallelisms() == {1}
    assert job.events() == ["RESCALE_STARTED", "RESCALE_FAILED"]
    assert cluster.attempts(job.id) == [0] * len(cluster.attempts(job.id)), "its tasks ran on"
    cluster.cancel(job.id)


def test_the_autoscaler_gives_a_busy_job_more_tasks_and_an_idle_one_fewer_with_the_reason(
    cluster: Cluster, tmp_path: Path
) -> None:
    quick = {"metrics.window": "1 s", "stabilization.interval": "500 ms", "scale-down.interval": "1 s"}
    wanted = {"enabled": "true", "vertex.max-parallelism": "2", **quick}
    options = [f"job.autoscaler.{key}={value}" for key, value in wanted.items()]
    job = Job(cluster, tmp_path, *options)
    wait_until(lambda: "RESCALE_COMPLETED" in job.events(), "the job to be rescaled")
    events = cluster.get(f"/jobs/{job.id}/events")["events"]
    assert events[0]["kind"] == "SCALING_DECISION"
    assert " 1 -> 2: busy " in events[0]["message"]
    assert max(job.parallelisms()) == 2
    job.shows_everything_once()
    wait_until(lambda: job.parallelisms() == {1}, "the idle job to be scaled down")
    assert " 2 -> 1: busy " in cluster.cli("events", "-m", cluster.rest, job.id).stdout


def test_a_job_without_periodic_checkpoints_is_rescaled_through_one(cluster: Cluster, tmp_path: Path) -> None:
    job = Job(cluster, tmp_path, "execution.checkpointing.interval=0")
    for parallelism in (2, 1):
        cluster.cli("rescale", "-m", cluster.rest, job.id, "-p", str(parallelism))
    shown = job.visible()
    assert shown
    assert set(shown.values()) <= {1}
    counts = {key: {count for found, count in shown if found == key} for key in range(KEYS)}
    assert all(found == set(range(1, len(found) + 1)) for found in counts.values())
    cluster.cancel(job.id)


ADAPTIVE = "jobmanager.adaptive-scheduler"


@pytest.fixture
def reactive_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One task manager with one slot, and jobs that use all available slots."""
    options = {
        "heartbeat.timeout": "8 s",
        "jobmanager.scheduler": "adaptive",
        "scheduler-mode": "reactive",
        f"{ADAPTIVE}.executing.cooldown-after-rescaling": "1 s",
        f"{ADAPTIVE}.executing.resource-stabilization-timeout": "500 ms",
    }
    with running_cluster(tmp_path_factory.mktemp("cluster"), 1, 1, **QUICK, **options) as made:
        yield made


def test_a_reactive_job_uses_a_new_task_manager_and_survives_the_loss_of_one(
    reactive_cluster: Cluster, tmp_path: Path
) -> None:
    cluster = reactive_cluster
    job = Job(cluster, tmp_path, parallelism=3)
    assert job.parallelisms() == {1}
    cluster.cli("cluster", "start", "taskmanager", "--dir", str(cluster.directory))
    job.wait_for_parallelism(2)
    cluster.wait_for_checkpoint(job.id)
    cluster.kill(cluster.service_pids("taskmanager")[-1])
    job.wait_for_parallelism(1)
    assert "PARALLELISM_CHOSEN" in job.events()
    job.shows_everything_once()
    cluster.cancel(job.id)
