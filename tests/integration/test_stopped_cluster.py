"""A whole cluster is stopped and started again: what happens to its jobs, and how it is reported."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from system import QUICK, Cluster, given, recovering, wait_until, write_job

pytestmark = pytest.mark.process

JOB = """
import time

def seen(x):
    with open("{lines}", "a") as file:
        print(x, file=file)
    time.sleep(0.01)
    return x

env.from_sequence(1, 10**9).map(seen).filter(lambda x: False).print()
env.execute("{name}")
"""
RESTARTS = given("restart-strategy.type=fixed-delay", "restart-strategy.fixed-delay.delay=10ms")


def test_a_job_is_resumed_from_its_checkpoint_or_by_its_restart_strategy_and_fails_otherwise(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    cluster = own_cluster

    def lines(name: str) -> list[str]:
        file = tmp_path / f"{name}.txt"
        return file.read_text().splitlines() if file.exists() else []

    options = {"plain": [], "kept": given(*recovering(tmp_path / "checkpoints")), "repeated": RESTARTS}
    jobs = {}
    for name, flags in options.items():
        body = JOB.format(lines=tmp_path / f"{name}.txt", name=name)
        jobs[name] = cluster.submit_running(write_job(tmp_path, name, body), *flags)
        wait_until(lambda name=name: len(lines(name)) > 10, f"records of {name}")
    cluster.wait_for_checkpoint(jobs["kept"])
    body = JOB.format(lines=tmp_path / "waiting.txt", name="waiting")
    jobs["waiting"] = cluster.submit(write_job(tmp_path, "waiting", body), parallelism=2)

    output = cluster.cli("cluster", "stop", "--dir", str(cluster.directory)).stdout
    assert re.search(r"'plain' \(.*\) is RUNNING: it is not resumed: it has completed no checkpoint", output)
    kept = re.search(rf"'kept' \({jobs['kept']}\) is RUNNING: the next start resumes it from checkpoint (\d+)", output)
    assert kept is not None, output
    assert re.search(r"'repeated' \(.*\) is RUNNING: .* the next start runs it again from the beginning", output)

    assert re.search(r"'waiting' \(.*\) is CREATED: it has not run yet, and the next start starts it", output)

    output = cluster.start(2, 2, **QUICK)
    assert re.search(r"'plain' \(.*\) is (not resumed, and ends as )?FAILED: .*it has completed no checkpoint", output)
    resumed = re.search(r"'kept' \(.*\) is resumed from checkpoint (\d+)", output)
    assert resumed is not None, output
    assert int(resumed[1]) >= int(kept[1])
    assert re.search(r"'repeated' \(.*\) has completed no checkpoint, .* is run again from the beginning", output)
    assert re.search(r"'waiting' \(.*\) is started: it has not run before", output)

    cluster.wait_for(jobs["plain"], "FAILED")
    cluster.wait_for(jobs["waiting"], "RUNNING")
    assert len(lines("plain")) == len(set(lines("plain"))), "no record was processed twice"
    assert cluster.exceptions(jobs["plain"])[0]["exception"].startswith("NotResumed: ")
    cluster.wait_for(jobs["kept"], "RUNNING")
    cluster.wait_for(jobs["repeated"], "RUNNING")
    wait_until(lambda: lines("repeated").count("1") == 2, "the job to begin again")
    assert lines("kept").count("1") == 1
    for name, words in (
        ("kept", f"restarts from checkpoint {resumed[1]}: "),
        ("repeated", "restarts from the beginning, since it has completed no checkpoint: "),
    ):
        assert cluster.get(f"/jobs/{jobs[name]}")["restarts"] == 1
        assert words in cluster.cli("events", "-m", cluster.rest, jobs[name]).stdout
    listed = cluster.cli("list", "-m", cluster.rest, "--all").stdout
    assert "JobManagerChanged: 0 of 1 tasks" in " ".join(listed.split())
