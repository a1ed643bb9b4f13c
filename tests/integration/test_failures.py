"""Failures and how they are reported: user functions, slot workers, task managers, too few slots."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest
from processes import frozen, is_alive, parent_of
from system import Cluster, wait_until, write_job

pytestmark = pytest.mark.process

BUSY = """
import time

def gently(x):
    time.sleep(0.001)
    return (x % 100, x)

env.from_sequence(1, 10**12).map(gently).key_by(lambda t: t[0]) \\
    .reduce(lambda a, b: b).filter(lambda t: False).print()
env.execute("busy")
"""


FORKING = """
import os
import signal
from millstream.datastream.functions import MapFunction

class Forking(MapFunction):
    def open(self, runtime_context):
        if os.fork() == 0:
            signal.pause()

    def map(self, value):
        return value

env.from_collection(range(4)).rebalance().map(Forking()).print()
"""


def busy_job(cluster: Cluster, folder: Path, parallelism: int) -> str:
    """A job that keeps running, without restarts."""
    return cluster.submit_running(write_job(folder, "busy", BUSY), parallelism=parallelism)


def test_an_error_of_a_user_function_is_shown_with_the_users_traceback(cluster: Cluster, tmp_path: Path) -> None:
    body = """
    def parse(text):
        return int(text)

    env.from_collection(["1", "2", "three", "4"]).map(parse).name("parse").print()
    env.execute("bug")
    """
    script = write_job(tmp_path, "bug", body)
    done = cluster.run("-p", "2", str(script), check=False)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    begin = lines.index("Traceback (most recent call last):")
    assert "bug.py" in lines[begin + 1]
    assert "in parse" in lines[begin + 1]
    assert "invalid literal for int()" in done.stderr
    assert "in operator 'parse'" in done.stderr
    assert "on the record 'three'" in done.stderr
    assert "millstream/" not in done.stderr
    job_id = done.stdout.split("JobID", 1)[1].split()[0]
    entry = cluster.exceptions(job_id)[0]
    assert "ValueError" in str(entry["exceptionName"])
    assert "three" in str(entry["record"])
    assert "in parse" in str(entry["stacktrace"])
    wait_until(lambda: cluster.free_slots() == 4, "the slots to be free again")


def test_a_killed_slot_worker_fails_the_job_with_its_address_and_the_cause(cluster: Cluster, tmp_path: Path) -> None:
    """Even while a child that a function forked survives with a copy of everything that the worker had open."""
    job_id = cluster.submit_running(write_job(tmp_path, "forking", FORKING + BUSY), parallelism=4)
    wait_until(lambda: len(cluster.workers()) == 8 and cluster.records(job_id) > 0, "children, and records to flow")
    daemons = cluster.service_pids("taskmanager")
    cluster.kill(next(pid for pid in cluster.workers() if parent_of(pid) in daemons))
    cluster.wait_for(job_id, "FAILED")
    root = cluster.exceptions(job_id)[0]
    assert "was killed by SIGKILL, not by Millstream" in root["stacktrace"]
    assert "out of memory" not in root["stacktrace"], "there is no evidence of it"
    wait_until(lambda: cluster.free_slots() == 4 and not cluster.workers(), "slots and workers to be gone")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_task_manager_leaves_no_process_behind(
    own_cluster: Cluster, tmp_path: Path, number: signal.Signals
) -> None:
    job_id = busy_job(own_cluster, tmp_path, 4)
    wait_until(lambda: own_cluster.records(job_id) > 0, "records to flow")
    victim = own_cluster.service_pids("taskmanager")[0]
    children = [p for p in own_cluster.workers() if parent_of(p) == victim]
    assert len(children) == 2
    own_cluster.kill(victim, number)
    own_cluster.wait_for(job_id, "FAILED")
    wait_until(lambda: not any(map(is_alive, children)), "the dead task manager's workers to be gone")
    wait_until(lambda: not own_cluster.workers(), "all workers of the failed job to be gone")
    wait_until(lambda: own_cluster.get("/overview")["taskmanagers"] == 1, "the cluster to notice")


def test_a_frozen_task_manager_is_lost_after_the_heartbeat_timeout(own_cluster: Cluster, tmp_path: Path) -> None:
    job_id = busy_job(own_cluster, tmp_path, 4)
    victim = own_cluster.service_pids("taskmanager")[0]
    with frozen(victim):
        own_cluster.wait_for(job_id, "FAILED")
        assert "heartbeat" in str(own_cluster.exceptions(job_id))
    wait_until(lambda: own_cluster.free_slots() == 4, "the thawed task manager to be back with free slots")


def test_a_frozen_slot_worker_is_noticed(own_cluster: Cluster, tmp_path: Path) -> None:
    job_id = busy_job(own_cluster, tmp_path, 4)
    wait_until(lambda: own_cluster.records(job_id) > 0, "records to flow")
    with frozen(own_cluster.workers()[0]):
        own_cluster.wait_for(job_id, "FAILED")
        noticed_by_a_peer_or_its_task_manager = r"lost the|did not respond for 8 s"
        assert re.search(noticed_by_a_peer_or_its_task_manager, own_cluster.exceptions(job_id)[0]["stacktrace"])
        wait_until(lambda: not own_cluster.workers(), "the frozen worker to be killed")
        wait_until(lambda: own_cluster.free_slots() == 4, "its slot to be free")


def test_a_restarted_resource_manager_is_found_again(own_cluster: Cluster, tmp_path: Path) -> None:
    job_id = busy_job(own_cluster, tmp_path, 2)
    own_cluster.restart("resourcemanager")
    wait_until(lambda: own_cluster.get("/overview")["slots-total"] == 4, "the task managers to register again")
    wait_until(lambda: own_cluster.free_slots() == 2, "the slots in use to be known")
    assert own_cluster.state(job_id) == "RUNNING"
    busy_job(own_cluster, tmp_path, 2)


def test_a_restarted_job_manager_starts_without_jobs(lone_cluster: Cluster, tmp_path: Path) -> None:
    job_id = busy_job(lone_cluster, tmp_path, 2)
    lone_cluster.restart("jobmanager")
    lone_cluster.wait_for(job_id, "FAILED")
    assert "job manager" in str(lone_cluster.exceptions(job_id))
    wait_until(lambda: lone_cluster.free_slots() == 4, "the slots of the lost job to be free")
    busy_job(lone_cluster, tmp_path, 2)


def test_a_restarted_dispatcher_learns_of_the_running_jobs(own_cluster: Cluster, tmp_path: Path) -> None:
    """The job restarts if that takes long: its job manager does not continue alone indefinitely."""
    restarts = ("-D", "restart-strategy.type=fixed-delay")
    job_id = own_cluster.submit_running(write_job(tmp_path, "busy", BUSY), *restarts, parallelism=2)
    own_cluster.restart("dispatcher")

    def running() -> bool:
        try:
            return own_cluster.state(job_id) == "RUNNING"
        except OSError:
            return False

    wait_until(running, "the new dispatcher to know the job")
    own_cluster.cancel(job_id)


def test_a_user_function_that_exits_the_process(cluster: Cluster, tmp_path: Path) -> None:
    body = """
    import os
    env.from_sequence(1, 10).map(lambda x: os._exit(7)).print()
    env.execute("exits")
    """
    job_id = cluster.submit(write_job(tmp_path, "exits", body))
    cluster.wait_for(job_id, "FAILED")
    assert "status 7" in cluster.exceptions(job_id)[0]["stacktrace"]
