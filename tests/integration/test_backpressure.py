"""A slow sink slows its source, and memory stays bounded."""

from __future__ import annotations

from pathlib import Path

import pytest
from system import Cluster, wait_until, write_job

pytestmark = [pytest.mark.process, pytest.mark.alone]


def resident_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def test_a_slow_sink_slows_the_source(cluster: Cluster, tmp_path: Path) -> None:
    body = """
    import time

    def slow(value, ctx):
        time.sleep(0.002)

    env.from_sequence(1, 10**12).map(lambda x: (x, "x" * 1000)).key_by(lambda t: t[0]).process(slow).print()
    env.execute("slow sink")
    """
    job_id = cluster.submit_running(write_job(tmp_path, "slow", body), parallelism=2)
    source = cluster.get(f"/jobs/{job_id}")["vertices"][0]["id"]

    def produced() -> int:
        vertex = cluster.get(f"/jobs/{job_id}/vertices/{source}")
        return sum(int(s["metrics"]["write-records"]) for s in vertex["subtasks"])

    def consumed() -> int:
        return int(cluster.get(f"/jobs/{job_id}")["vertices"][1]["metrics"]["read-records"])

    wait_until(lambda: consumed() > 3000, "the sink to have worked for some seconds")
    assert produced() - consumed() < 60_000, "the source ran ahead of what the buffers hold"
    assert max(resident_mb(pid) for pid in cluster.workers()) < 250

    def mostly_held_back() -> bool:
        metrics = cluster.get(f"/jobs/{job_id}")["vertices"][0]["metrics"]
        return bool(metrics["accumulated-backpressured-time"] > metrics["accumulated-busy-time"])

    wait_until(mostly_held_back, "the source to have waited longer than it has worked")
    cluster.cancel(job_id)
