"""Cancelling works in every state of a job."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from system import Cluster, wait_until, write_job

pytestmark = pytest.mark.process

BODIES = {
    "backpressured": """
        import time
        env.from_sequence(1, 10**12).map(lambda x: (x % 4, "x" * 100)).key_by(lambda t: t[0]) \\
            .process(lambda value, ctx: time.sleep(0.01)).print()
        env.execute("backpressured")
    """,
    "sleeping": """
        import time
        env.from_sequence(1, 10).map(lambda x: time.sleep(3600)).print()
        env.execute("sleeping")
    """,
    "stubborn": """
        import time

        def never(x):
            while True:
                try:
                    time.sleep(3600)
                except BaseException:
                    pass

        env.from_sequence(1, 10).map(never).print()
        env.execute("stubborn")
    """,
}


@pytest.mark.parametrize("name", BODIES)
def test_cancelling_a_job_that_is(cluster: Cluster, tmp_path: Path, name: str) -> None:
    job_id = cluster.submit_running(write_job(tmp_path, name, BODIES[name]), parallelism=2)
    wait_until(
        lambda: all(v["status"] == "RUNNING" for v in cluster.get(f"/jobs/{job_id}")["vertices"]), "all tasks to run"
    )
    cluster.cancel(job_id)
    wait_until(lambda: cluster.free_slots() == 4 and not cluster.workers(), "slots and workers to be gone")


def test_cancelling_a_job_whose_source_is_idle(cluster: Cluster, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        body = f"""
        env.socket_text_stream("127.0.0.1", {port}).map(lambda x: x).print()
        env.execute("idle")
        """
        job_id = cluster.submit_running(write_job(tmp_path, "idle", body))
        cluster.cancel(job_id)
    wait_until(lambda: cluster.free_slots() == 4, "the slots to be free again")
