"""Barriers get past functions that are slow for each record, as calls of models and databases are."""

from __future__ import annotations

from pathlib import Path

import pytest
from system import Cluster, given, wait_until, write_job

pytestmark = [pytest.mark.process, pytest.mark.alone]

SECONDS = 0.02  # for each record

JOB = """
import time

def slow(value):
    time.sleep({seconds})
    return value

env.from_sequence(1, 10**12){exchange}.map(slow).filter(lambda value: False).print()
env.execute("slow function")
"""

LIMIT = 1000
"""Records. Those that last for the target of a second are 50 for each of both functions, and metrics are a second old.

Without debloating, 14,000 were in flight after `key_by`: a checkpoint took more than two minutes, as did `stop`.
"""


@pytest.mark.parametrize("exchange", [".key_by(lambda n: n % 100)", ".disable_chaining()"], ids=["hash", "forward"])
def test_checkpoints_and_stopping_do_not_wait_for_full_buffers(cluster: Cluster, tmp_path: Path, exchange: str) -> None:
    options = ("execution.checkpointing.interval=200ms", f"execution.checkpointing.dir={tmp_path / 'checkpoints'}")
    job = write_job(tmp_path, "slow", JOB.format(seconds=SECONDS, exchange=exchange))
    job_id = cluster.submit_running(job, *given(*options), parallelism=2)

    def completed() -> int:
        return int(cluster.get(f"/jobs/{job_id}/checkpoints")["counts"]["completed"])

    wait_until(lambda: completed() >= 3, "checkpoints that pass the slow function")
    source, slow = (vertex["metrics"] for vertex in cluster.get(f"/jobs/{job_id}")["vertices"])
    assert source["write-records"] - slow["read-records"] < LIMIT
    cluster.cli("stop", "-m", cluster.rest, "-p", str(tmp_path / "savepoints"), job_id)
    cluster.wait_for(job_id, "FINISHED")
