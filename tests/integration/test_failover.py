"""Any leader may be killed or frozen at any time: every job continues by itself, and commits each record once.

The job writes to an exactly-once file sink. It runs slowly, so that it cannot end by itself, until the test lets it
`go`.
"""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from failover_system import FailoverCluster, failover_cluster
from system import given, wait_until, write_job

from millstream.core.snapshot.storage.uri_files import UriFiles

sys.path.append(str(Path(__file__).parents[1] / "core" / "store"))
from zookeeper_process import running_zookeeper, why_not

pytestmark = pytest.mark.process

RECORDS = 100_000
JOB = """
import time
from pathlib import Path
from millstream.common import Encoder, Types
from millstream.datastream.connectors.file_system import FileSink, RollingPolicy

def slowly(number):
    if not Path("{go}").exists():
        time.sleep(0.02)
    return number

env.from_sequence(1, {records}).map(slowly).key_by(lambda n: n % 7).map(str, Types.STRING()) \\
    .sink_to(FileSink.for_row_format("{output}", Encoder.simple_string_encoder())
             .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build())
env.execute("committed once")
"""
CHECKPOINTS = ("execution.checkpointing.interval=200 ms", "restart-strategy.type=fixed-delay",
               "restart-strategy.fixed-delay.attempts=100", "restart-strategy.fixed-delay.delay=100 ms")  # fmt: skip


@pytest.fixture(params=["file", "zookeeper"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FailoverCluster]:
    directory = tmp_path_factory.mktemp("failover")
    if request.param == "file":
        with failover_cluster(directory, {"high-availability.type": "file"}) as made:
            yield made
        return
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    with running_zookeeper() as server:
        quorum = f"127.0.0.1:{server.port}"
        options = {"high-availability.type": "zookeeper", "high-availability.zookeeper.quorum": quorum}
        with failover_cluster(directory, options) as made:
            yield made


class Job:
    """A running job, and its committed records."""

    def __init__(self, cluster: FailoverCluster, folder: Path) -> None:
        self._cluster = cluster
        self._output, self._go = folder / "output", folder / "go"
        job = write_job(folder, "job", JOB.format(records=RECORDS, output=self._output, go=self._go))
        self.id = cluster.submit(job, *given(*CHECKPOINTS), parallelism=2)
        cluster.wait_for_checkpoint(self.id)

    def committed(self) -> list[int]:
        files = [file for file in self._output.rglob("*") if file.is_file() and not file.name.startswith(".")]
        return sorted(int(line) for file in files for line in file.read_text().split())

    def wait_until_it_continues(self) -> None:
        """Waits for a checkpoint that begins after this call and commits something new."""
        before = len(self.committed())
        self._cluster.wait_for_checkpoint(self.id)
        wait_until(lambda: len(self.committed()) > before, "more to be committed")

    def ends_exactly(self) -> None:
        self._go.touch()
        self._cluster.wait_for(self.id, "FINISHED")
        assert self.committed() == list(range(1, RECORDS + 1))
        assert not [file for file in self._output.rglob(".*") if file.is_file()], "unfinished files are left"


def test_one_leader_after_the_other_is_killed(cluster: FailoverCluster, tmp_path: Path) -> None:
    cluster.start_all()
    job = Job(cluster, tmp_path)
    for kind in ("jobmanager", "dispatcher", "resourcemanager", "jobmanager"):
        leader = cluster.leader(kind, job.id if kind == "jobmanager" else "")
        cluster.kill_member(leader)
        job.wait_until_it_continues()
        cluster.start_member(leader)
    assert cluster.attempts(job.id) == [0] * 4, "its tasks were to be taken over, and not started again"
    cluster.lose_a_worker(job.id)  # the resource manager that leads now has the slots, too
    job.wait_until_it_continues()
    job.ends_exactly()
    wait_until(lambda: cluster.free_slots() == 4, "the slots to be free again")


def test_a_frozen_leader_that_wakes_up_does_nothing(cluster: FailoverCluster, tmp_path: Path) -> None:
    """ZooKeeper elects another after the session's timeout; in a directory it remains leader."""
    cluster.start_all()
    job = Job(cluster, tmp_path)
    leader = cluster.leader("jobmanager", job.id)
    cluster.kill(cluster.pid_of(leader), signal.SIGSTOP)
    if cluster.options["high-availability.type"] == "zookeeper":
        wait_until(lambda: cluster.leader("jobmanager", job.id) != leader, "another leader")
        job.wait_until_it_continues()
    cluster.kill(cluster.pid_of(leader), signal.SIGCONT)
    job.wait_until_it_continues()
    job.ends_exactly()


def test_a_cluster_that_was_killed_as_a_whole_continues_with_its_jobs(cluster: FailoverCluster, tmp_path: Path) -> None:
    cluster.start_all()
    job = Job(cluster, tmp_path)
    cluster.kill_everything()
    cluster.start_all(job_managers=1)
    job.wait_until_it_continues()
    job.ends_exactly()


def test_a_cluster_that_shares_only_a_bucket_continues_from_it(tmp_path: Path, s3_root: str) -> None:
    """Leaders are killed, then all hosts are lost with their disks: graph, artifacts and state are in storage."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)

    def stored(path: str) -> list[str]:
        files = UriFiles(s3_root.format(path="ha"))
        return files.files(f"{files.root}/default/{path}")

    with running_zookeeper() as server:
        options = {
            "high-availability.type": "zookeeper",
            "high-availability.zookeeper.quorum": f"127.0.0.1:{server.port}",
            "high-availability.storageDir": s3_root.format(path="ha"),
        }
        with failover_cluster(tmp_path / "cluster", options) as cluster:
            cluster.start_all()
            job = Job(cluster, tmp_path)
            for kind in ("dispatcher", "jobmanager"):
                cluster.kill_member(cluster.leader(kind, job.id if kind == "jobmanager" else ""))
            job.wait_until_it_continues()
            cluster.kill_everything()
            shutil.rmtree(tmp_path / "cluster" / "tmp")
            cluster.start_all(job_managers=1)
            job.wait_until_it_continues()
            assert len(stored("job-graphs")) == 1
            assert stored(f"checkpoints/{job.id}")
            shown = [cluster.get(f"/jobs/{job.id}{path}") for path in ("", "/checkpoints", "/checkpoints/config")]
            job.ends_exactly()
            wait_until(lambda: not stored("job-graphs") and not stored("checkpoints"), "the bucket to be cleaned up")
            assert len(stored("job-results")) == 1
            assert "testsecret" not in cluster.logs() + str(shown)


def test_a_rescaled_job_continues_at_its_last_parallelism(cluster: FailoverCluster, tmp_path: Path) -> None:
    cluster.start_all()
    job = Job(cluster, tmp_path)
    cluster.cli("rescale", "-m", cluster.rest, job.id, "-p", "3")
    before = cluster.attempts(job.id)
    cluster.kill_member(cluster.leader("jobmanager", job.id))
    job.wait_until_it_continues()
    assert {vertex["parallelism"] for vertex in cluster.get(f"/jobs/{job.id}")["vertices"]} == {3}
    assert cluster.attempts(job.id) == before, "its tasks ran on"
    job.ends_exactly()


def test_an_acknowledged_cancellation_survives_the_leaders(cluster: FailoverCluster, tmp_path: Path) -> None:
    cluster.start_all()
    job = Job(cluster, tmp_path)
    cluster.freeze_member(cluster.leader("jobmanager", job.id))
    status, _ = cluster.request("PATCH", f"/jobs/{job.id}?mode=cancel")
    assert status == 202
    cluster.kill_everything()
    cluster.start_all()
    cluster.wait_for(job.id, "CANCELED")
    wait_until(lambda: cluster.free_slots() == 4, "the slots to be free again")
