"""A job whose code writes to descriptors that it does not own ends with the reason; another job continues."""

from __future__ import annotations

from pathlib import Path

import pytest
from system import Cluster, write_job

pytestmark = pytest.mark.process

BESIDE = """
import time

def slowly(number):
    time.sleep(0.001)
    return number

env.from_sequence(0, 10**9).map(slowly).filter(lambda _: False).print()
env.execute("beside")
"""
VANDAL = """
import os
import socket
import time

def is_pipe(descriptor):
    try:
        return socket.socket(fileno=os.dup(descriptor)).family == socket.AF_UNIX
    except OSError:
        return False

def write_to_all(number):
    for descriptor in filter(is_pipe, range(3, 100)):
        os.write(descriptor, b"not for you, not for you, ")
    time.sleep(600)

env.from_collection([1]).map(write_to_all).print()
env.execute("vandal")
"""


def test_garbage_in_a_workers_control_pipe_ends_only_that_worker(cluster: Cluster, tmp_path: Path) -> None:
    beside = cluster.submit_running(write_job(tmp_path, "beside", BESIDE))
    vandal = cluster.submit(write_job(tmp_path, "vandal", VANDAL))
    cluster.wait_for(vandal, "FAILED")
    (failure,) = cluster.exceptions(vandal)
    reason = "slot worker: killed: its control pipe holds b'not for ' where a message should begin"
    assert reason in failure["stacktrace"]
    assert cluster.state(beside) == "RUNNING"
    assert cluster.attempts(beside) == [0]
    for log in (cluster.directory / "log").glob("*manager-*.log"):
        assert "Traceback" not in log.read_text(), log
