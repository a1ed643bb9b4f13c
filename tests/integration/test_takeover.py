"""Jobs whose job manager is killed continue with their running tasks: nothing restarts, and records keep flowing."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from ports import free_port
from system import given, recovering, running_cluster, wait_until, write_job

pytestmark = pytest.mark.process

JOB = """
import os
import time
from pathlib import Path

from millstream.common import Types, WatermarkStrategy
from millstream.datastream.connectors.datagen import DataGeneratorSource

def note(number):
    with open(Path("{folder}") / str(os.getpid()), "a") as file:
        file.write(f"{{number}} {{time.time()}}\\n")
    return number

source = DataGeneratorSource(lambda index: index, {records}, 200, Types.LONG())
env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").key_by(lambda n: n % 7).map(note) \\
    .filter(lambda n: False).print()
env.execute("numbers")
"""
RECORDS = 2_400


def lines(folder: Path) -> list[tuple[int, float]]:
    """The emitted records, with their times."""
    lines_of_words = (line.split() for file in folder.iterdir() for line in file.read_text().splitlines())
    return [(int(words[0]), float(words[1])) for words in lines_of_words if len(words) == 2]


@pytest.mark.parametrize(("interval", "stands_by"), [("300ms", False), ("1h", True)])
def test_a_job_continues_with_its_tasks_when_its_job_manager_is_killed(
    tmp_path: Path, interval: str, stands_by: bool
) -> None:
    """A standby at another address takes over, or the same job manager is started again."""
    ha = {"high-availability.type": "file", "high-availability.storageDir": str(tmp_path / "ha")}
    results = tmp_path / "results"
    results.mkdir()
    with running_cluster(tmp_path / "cluster", 1, 2, **ha) as cluster:
        job = write_job(tmp_path, "counted", JOB.format(folder=results, records=RECORDS))
        options = given(*recovering(tmp_path / "checkpoints", interval))
        job_id = cluster.submit(job, *options, parallelism=2)
        cluster.wait_for(job_id, "RUNNING")
        wait_until(lambda: len(lines(results)) > 400, "records")
        workers = cluster.workers()
        if stands_by:
            leader = cluster.service_pids("jobmanager")[0]
            cluster.start_another("jobmanager", f"jobmanager.rpc.port={free_port()}")
            wait_until(lambda: len(cluster.get("/overview")) and len(cluster.service_pids("jobmanager")) == 2, "both")
            cluster.kill(leader)
        else:
            cluster.restart("jobmanager")
        cluster.wait_for(job_id, "FINISHED")
        assert {int(file.name) for file in results.iterdir()} == set(workers), "a slot worker was started again"
        assert cluster.attempts(job_id) == [0] * len(cluster.attempts(job_id))
    came = lines(results)
    assert sorted(number for number, _ in came) == list(range(RECORDS)), "a record is missing, or came twice"
    times = sorted(at for _, at in came)
    gap = max(later - at for at, later in itertools.pairwise(times))
    print(f"the longest gap in the output: {gap:.3f} s")
