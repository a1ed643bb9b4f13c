"""`cluster start|status|stop` with the real services."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ports import free_port, free_ports
from waiting import DEADLINE, wait_until

from millstream.cli.cluster.directory import ClusterDirectory
from millstream.cli.cluster.ports import held_ports
from millstream.cli.cluster.services import Daemon, chosen, to_start, wait_until_up
from millstream.cli.cluster.stop import stop_cluster
from millstream.cli.rest import RestClient
from millstream.core.errors import MillstreamError
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.variables import CLUSTER_MEMBER
from millstream.resourcemanager.process_records import ProcessRecord, processes_with


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[ClusterDirectory]:
    cluster = ClusterDirectory(tmp_path / "cluster")
    yield cluster
    if cluster.root.exists():
        stop_cluster(cluster, timeout=0)


def start(cli: Any, directory: ClusterDirectory, *options: str) -> subprocess.CompletedProcess[str]:
    done = cli.start_cluster("--dir", str(directory.root), *options)
    assert isinstance(done, subprocess.CompletedProcess)
    return done


@pytest.mark.process
def test_starts_shows_and_stops(cli: Any, directory: ClusterDirectory) -> None:
    done = start(cli, directory, "--taskmanagers", "2", "--slots", "2")
    assert done.returncode == 0, done.stderr
    assert "2 task managers, 4 slots" in done.stdout
    options = directory.configuration()
    assert RestClient(options).get("/readyz") == {"status": "ready"}, "not only task managers have registered"
    assert options.value("rest.port") > 0
    assert options.value("taskmanager.numberOfTaskSlots") == 2
    assert options.value("io.tmp.dirs") == str(directory.root / "tmp")

    shown = cli("cluster", "status", "--dir", str(directory.root), "--json")
    assert shown.returncode == 0, shown.stderr
    status = json.loads(shown.stdout)
    names = ["dispatcher-1", "jobmanager-1", "resourcemanager-1", "taskmanager-1", "taskmanager-2"]
    assert [service["service"] for service in status["services"]] == names
    assert all(service["up"] and service["address"].startswith("127.0.0.1:") for service in status["services"])
    assert (status["overview"]["taskmanagers"], status["overview"]["slots-total"]) == (2, 4)
    assert status["overview"]["version"] == version("millstream")
    assert "flink" not in shown.stdout

    secret = directory.secret.read_text()
    for file in (directory.secret, directory.conf / "curl", directory.conf / "config.yaml"):
        assert file.stat().st_mode & 0o777 == 0o600
    token = cli("cluster", "token", "--dir", str(directory.root)).stdout.strip()
    options_of_curl = (directory.conf / "curl").read_text()
    assert "unix-socket" in options_of_curl
    assert not re.search(r"(?i)bearer|authorization|[0-9a-f]{64}", options_of_curl)
    assert token not in (secret, cli("cluster", "token", "--dir", str(directory.root), "--role", "read").stdout)
    listed = cli("list", "-m", f"localhost:{options.value('rest.port')}")  # which is in no default directory
    assert listed.returncode == 0, listed.stderr

    single_services(cli, directory)
    assert directory.secret.read_text() == secret
    again = start(cli, directory)
    assert again.returncode == 1
    assert len(again.stderr.splitlines()) == 1
    assert "already running" in again.stderr

    members = directory.members()
    stopped = cli("cluster", "stop", "--dir", str(directory.root))
    assert stopped.returncode == 0, stopped.stderr
    assert not any(record.is_running() for record in members)
    assert processes_with(CLUSTER_MEMBER, str(directory.root)) == []
    assert directory.services() == {}
    assert "no cluster is running" in cli.fails("cluster", "status", "--dir", str(directory.root))


def single_services(cli: Any, directory: ClusterDirectory) -> None:
    def cluster(*arguments: str, status: int = 0) -> str:
        done = cli("cluster", *arguments, "--dir", str(directory.root))
        assert done.returncode == status, done
        return str(done.stdout)

    before = directory.services()
    assert "runs already" in cluster("start", "dispatcher", "taskmanager-2")
    assert "taskmanager-3 is up" in cluster("start", "taskmanager", "--slots", "3")
    overview = json.loads(cluster("status", "--json"))["overview"]
    assert (overview["taskmanagers"], overview["slots-total"]) == (3, 7)
    os.kill(before["jobmanager-1"].pid, signal.SIGKILL)
    wait_until(lambda: not before["jobmanager-1"].is_running(), "the job manager to end")
    cluster("status", "--json", status=1)
    cluster("start", "jobmanager")
    assert RestClient(directory.configuration()).get("/readyz") == {"status": "ready"}
    assert "Restarted taskmanager-3" in cluster("restart", "taskmanager-3")
    overview = json.loads(cluster("status", "--json"))["overview"]
    assert (overview["taskmanagers"], overview["slots-total"]) == (3, 7), "with the slots that it was started with"
    assert "Stopped taskmanager-3" in cluster("stop", "taskmanager-3")
    assert "taskmanager-3 is not running" in cluster("stop", "taskmanager-3")
    log = (directory.log / "jobmanager-1.log").read_text()
    assert log.count("jobmanager is up at") == 2, "the log of the one before is still there"
    for name in ("dispatcher-1", "resourcemanager-1", "taskmanager-1", "taskmanager-2"):
        assert directory.services()[name] == before[name], "the others kept running"
    failed = cli("cluster", "start", "taskmanager", "-D", "taskmanager.host=0.0.0.0", "--dir", str(directory.root))
    assert failed.returncode == 1
    assert "refusing to listen on 0.0.0.0" in failed.stderr
    assert "taskmanager-3" not in directory.services()


def test_names_of_services(directory: ClusterDirectory) -> None:
    directory.create()
    ProcessRecord("taskmanager", os.getpid(), start_time=1).write(directory.run / "taskmanager-1.json")
    ProcessRecord.of("taskmanager", os.getpid()).write(directory.run / "taskmanager-2.json")
    assert chosen(directory, ["taskmanager", "dispatcher", "taskmanager-2"]) == [
        "taskmanager-1", "taskmanager-2", "dispatcher-1",
    ]  # fmt: skip
    assert to_start(directory, ["taskmanager", "jobmanager"], 2) == ["jobmanager-1", "taskmanager-1", "taskmanager-3"]
    assert to_start(directory, ["taskmanager-7"], 1) == ["taskmanager-7"]
    for wrong in ("frobnicator", "dispatcher-2", "taskmanager-0"):
        with pytest.raises(MillstreamError, match="there is no"):
            chosen(directory, [wrong])
    (directory.run / "taskmanager-2.json").unlink()


@pytest.mark.process
def test_clients_find_the_cluster_in_the_default_directory(cli: Any, directory: ClusterDirectory) -> None:
    cli.environment["MILLSTREAM_CLUSTER_DIR"] = str(directory.root)
    done = cli.start_cluster()
    assert done.returncode == 0, done.stderr
    assert cli("list").stdout == "No running or scheduled jobs.\n"
    assert "Stopped" in cli("cluster", "stop").stdout


@pytest.mark.process
def test_stops_what_a_crash_left(cli: Any, directory: ClusterDirectory) -> None:
    done = start(cli, directory, "--slots", "1")
    assert done.returncode == 0, done.stderr
    services = directory.services()
    os.kill(services["jobmanager-1"].pid, signal.SIGKILL)
    os.kill(services["taskmanager-1"].pid, signal.SIGKILL)
    (directory.run / "resourcemanager-1.json").unlink()
    wait_until(lambda: not services["taskmanager-1"].is_running(), "the task manager to end")
    shown = cli("cluster", "status", "--dir", str(directory.root))
    assert shown.returncode == 1
    assert "down" in shown.stdout
    assert cli("cluster", "stop", "--dir", str(directory.root)).returncode == 0
    assert not any(record.is_running() for record in services.values())
    assert processes_with(CLUSTER_MEMBER, str(directory.root)) == []


@pytest.mark.process
def test_a_service_that_cannot_start_is_named_and_nothing_is_left(cli: Any, directory: ClusterDirectory) -> None:
    done = start(cli, directory, "-D", "taskmanager.host=0.0.0.0")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("millstream cluster start: taskmanager-1 ended with exit status 1: ")
    assert "refusing to listen on 0.0.0.0" in line
    assert processes_with(CLUSTER_MEMBER, str(directory.root)) == []
    assert directory.services() == {}


def test_a_service_that_is_ending_is_not_up(directory: ClusterDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    directory.create()
    directory.write_configuration(Configuration())
    for name in ("dispatcher-1", "resourcemanager-1"):
        ProcessRecord.of(name, os.getpid()).write(directory.run / f"{name}.json")
    ProcessRecord("taskmanager", os.getpid(), start_time=1).write(directory.run / "taskmanager-1.json")
    monkeypatch.setattr(RestClient, "get", lambda _client, _path: {"taskmanagers": 0})
    ending: Any = SimpleNamespace(poll=iter([None, 1]).__next__)  # `/proc` shows its end before its threads have ended
    try:
        with pytest.raises(MillstreamError, match="taskmanager-1 ended with exit status 1"):
            wait_until_up(directory, [Daemon("taskmanager-1", ending, 0)], DEADLINE, lambda _line: None)
    finally:
        for record in directory.run.glob("*.json"):
            record.unlink()  # or this process would be stopped with the cluster


@pytest.mark.process
def test_a_port_that_is_taken_is_named_before_anything_starts(cli: Any, directory: ClusterDirectory) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = start(cli, directory, f"-Drest.port={port}").stderr
    assert line.count("\n") == 1
    assert f"cannot listen on 127.0.0.1:{port} (rest.port)" in line
    assert directory.services() == {}


def test_a_port_is_chosen_once_and_held_until_its_service_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = free_ports()
    keys = list(elsewhere)
    monkeypatch.setattr(random, "sample", lambda ports, _number: [*elsewhere.values(), *ports])
    with held_ports(Configuration(dict.fromkeys(keys, 0))) as first:
        with held_ports(Configuration(dict.fromkeys(keys, 0))) as second:
            ports = [configuration.value(key) for configuration in (first, second) for key in keys]
        assert len({*ports, *elsewhere.values()}) == 12
        socket.create_server(("127.0.0.1", first.value("rest.port"))).close()


def test_of_a_cluster_that_lacks_its_dispatcher_only_that_is_to_be_started(
    directory: ClusterDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILLSTREAM_CLUSTER_DIR", str(directory.root))
    configuration = Configuration({"rest.port": free_port()})
    directory.create()
    directory.write_configuration(configuration)
    with pytest.raises(MillstreamError, match="`millstream cluster start` starts one"):
        RestClient(configuration).get("/overview")
    ProcessRecord.of("taskmanager", os.getpid()).write(directory.run / "taskmanager-1.json")
    try:
        with pytest.raises(MillstreamError, match="is down: `millstream cluster start dispatcher`"):
            RestClient(configuration).get("/overview")
        with pytest.raises(MillstreamError, match="`millstream cluster start` starts one"):
            RestClient(Configuration({"rest.port": free_port()})).get("/overview")
    finally:
        (directory.run / "taskmanager-1.json").unlink()  # or this process would be stopped with the cluster


def test_one_starts_or_stops_at_a_time(directory: ClusterDirectory) -> None:
    directory.create()
    other = ClusterDirectory(directory.root)
    with directory.locked(), pytest.raises(MillstreamError, match="started or stopped right now"), other.locked():
        pass


@pytest.mark.process
def test_a_stubborn_member_is_killed_and_a_reused_process_id_is_not(directory: ClusterDirectory) -> None:
    directory.create()
    program = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); signal.pause()"
    marked = {**os.environ, CLUSTER_MEMBER: str(directory.root)}
    with (
        subprocess.Popen(
            [sys.executable, "-c", program], env=marked, stdout=subprocess.PIPE, start_new_session=True
        ) as stubborn,
        subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], start_new_session=True) as bystander,
    ):
        try:
            assert stubborn.stdout.readline() == b"ready\n"
            ProcessRecord("dispatcher", bystander.pid, start_time=1).write(directory.run / "dispatcher-1.json")
            assert stop_cluster(directory, timeout=0.2) == 1
            assert stubborn.wait(DEADLINE) == -signal.SIGKILL
            assert bystander.poll() is None
            assert directory.services() == {}
        finally:
            stubborn.kill()
            bystander.kill()


@pytest.mark.process
def test_a_shell_that_chose_the_directory_is_no_member(directory: ClusterDirectory) -> None:
    directory.create()
    chosen = {**os.environ, "MILLSTREAM_CLUSTER_DIR": str(directory.root)}
    with subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], env=chosen) as shell:
        try:
            assert directory.members() == []
        finally:
            shell.kill()


def test_a_socket_has_a_short_path_whatever_the_clusters_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ClusterDirectory(Path("/a")).unix_socket() == Path("/a/conf/rest.sock")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / ("t" * 100)))
    found = {ClusterDirectory(tmp_path / (letter * 100)).unix_socket() for letter in "ab"}
    assert len(found) == 2
    for path in found:
        assert len(str(path)) <= 100
        assert path.parent.stat().st_mode & 0o777 == 0o700
