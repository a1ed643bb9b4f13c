"""Profiles of a job and thread dumps of its processes, from a real cluster, even if a task hangs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
from system import Cluster, running_cluster, wait_until, write_job

from millstream.core.messages.inspection import SampleRequest
from millstream.core.settings.configuration import Configuration
from millstream.taskmanager.supervisor.py_spy import PySpy, Target

pytestmark = pytest.mark.process

PROFILED = """
import logging, math, threading, time

def burn(number):
    for _ in range(400):
        math.fsum(range(2000))
    return number

def talk():
    print("printed by a thread")
    logging.getLogger("shop").warning("logged by a thread")

def rest(number):
    if number == 0:
        threading.Thread(target=talk).start()
    time.sleep(0.01)
    return number

env.from_sequence(0, 10**12).map(burn).name("burning").map(rest).name("resting").print()
env.execute("profiled")
"""
HANGING = """
import re

def hang(number):
    return re.match("(a+)+$", "a" * 60 + "b")  # keeps the interpreter's lock, for longer than anybody waits

env.from_collection([1]).map(hang).print()
env.execute("hanging")
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    soon = {"task.cancellation.timeout": "1 s"}  # a task hangs when the cluster is stopped
    with running_cluster(tmp_path_factory.mktemp("inspected") / "cluster", 1, 2, **soon) as made:
        yield made


def graph_path(cluster: Cluster, job: str, kind: str, more: str) -> str:
    vertex = cluster.get(f"/jobs/{job}")["vertices"][0]["id"]
    return f"/jobs/{job}/vertices/{vertex}/flamegraph?interval=10&type={kind}{more}"


def graph(cluster: Cluster, job: str, kind: str, more: str = "&duration=1500") -> dict[str, Any]:
    path = graph_path(cluster, job, kind, more)
    found: list[dict[str, Any]] = []

    def is_sampled() -> bool:
        found.append(cluster.get(path))
        return bool(found[-1]["endTimestamp"] != -3)

    wait_until(is_sampled, "the flame graph")
    return found[-1]


def graph_with(cluster: Cluster, job: str, operators: set[str]) -> dict[str, Any]:
    """Samples until all of them are seen: one takes a whole batch before the next does, for longer than is sampled."""

    def sampled() -> dict[str, Any] | None:
        cluster.get(graph_path(cluster, job, "full", "&duration=1500&refresh=true"))
        full = graph(cluster, job, "full")
        return full if {operator["name"] for operator in full["data"]["children"]} >= operators else None

    found: dict[str, Any] = wait_until(sampled, f"samples of {operators}")
    return found


def seen(node: dict[str, Any], name: str) -> int:
    """In how many samples a function was on the stack."""
    if node["name"].startswith(f"{name} ("):
        return int(node["value"])
    return sum(seen(child, name) for child in node["children"])


def may_trace() -> bool:
    """Whether this host lets a process trace its children."""
    spy = PySpy(Configuration({}))
    with subprocess.Popen([sys.executable, "-c", "print(flush=True); input()"], stdin=PIPE, stdout=PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        spy.sample(SampleRequest("j"), [Target(child.pid, (), {})])
        child.kill()
    return spy.is_used


def test_profiles_and_dumps(cluster: Cluster, tmp_path: Path) -> None:
    job = cluster.submit_running(write_job(tmp_path, "profiled", PROFILED))
    vertex = cluster.get(f"/jobs/{job}")["vertices"][0]["id"]
    wait_until(
        lambda: {"printed by a thread", "logged by a thread"}
        <= {event["message"] for event in cluster.get(f"/jobs/{job}/vertices/{vertex}/subtasks/0/logs")["events"]},
        "the lines of a thread of the task",
    )
    full = graph_with(cluster, job, {"burning", "resting"})
    assert full["problems"] == []
    assert full["samplers"] == ["py-spy" if may_trace() else "worker"]
    on, off = (graph(cluster, job, kind)["data"] for kind in ("on_cpu", "off_cpu"))
    assert seen(on, "burn") > seen(off, "burn")
    assert seen(off, "rest") > seen(on, "rest")
    assert on["value"] + off["value"] == full["data"]["value"]
    assert not any("millstream" in json.dumps(node) for node in full["data"]["children"])
    with_runtime = graph(cluster, job, "full", "&runtime=true&duration=200")
    assert "millstream.taskmanager.worker" in json.dumps(with_runtime)

    (manager,) = cluster.get("/taskmanagers")["taskmanagers"]
    path = f"/taskmanagers/{manager['id']}/thread-dump"
    threads = {info["threadName"]: info["stringifiedThreadInfo"] for info in cluster.get(path)["threadInfos"]}
    worker = next(stack for name, stack in threads.items() if job in name and name.endswith("MainThread"))
    assert "in run_worker" in worker
    assert any(name.startswith("asyncio task") for name in threads), "of the task manager itself"
    for service in cluster.get("/jobmanagers")["jobmanagers"]:
        of_service = cluster.get(f"/jobmanagers/{service['id']}/thread-dump")["threadInfos"]
        assert any(info["threadName"] == "MainThread" for info in of_service), service
        assert cluster.get(f"/jobmanagers/{service['id']}/logs")["logs"], service

    hanging = cluster.submit_running(write_job(tmp_path, "hanging", HANGING))

    def hangs() -> bool:
        found = [info for info in cluster.get(path)["threadInfos"] if hanging in info["threadName"]]
        texts = "\n".join(info["stringifiedThreadInfo"] for info in found)
        return "it does not respond" in texts and "in hang" in texts

    wait_until(hangs, "a dump of the worker that hangs")
    stuck = graph(cluster, hanging, "on_cpu", "&duration=200")
    if full["samplers"] == ["py-spy"]:
        assert stuck["problems"] == []
        assert seen(stuck["data"], "hang") == stuck["data"]["value"] > 0, "from outside, while it does not respond"
        assert [operator["name"] for operator in stuck["data"]["children"]] == ["Map"]
    else:
        (problem,) = stuck["problems"]
        assert hanging in problem
        assert "it does not respond" in problem
    cluster.cancel(job)
