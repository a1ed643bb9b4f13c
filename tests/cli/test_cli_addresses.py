"""Which cluster's secret and certificates a command takes for the address that it is given."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from millstream.cli.cluster.directory import ClusterDirectory
from millstream.cli.options import client_configuration
from millstream.core.services.cluster_secret import SECRET_FILE, make_secret_file
from millstream.core.settings.configuration import Configuration
from millstream.resourcemanager.process_records import ProcessRecord


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClusterDirectory:
    """As `millstream cluster start` leaves it, in the default directory, with no process of it."""
    monkeypatch.setenv("MILLSTREAM_CLUSTER_DIR", str(tmp_path / "cluster"))
    monkeypatch.delenv("MILLSTREAM_CONF_DIR", raising=False)
    made = ClusterDirectory(tmp_path / "cluster")
    made.create()
    make_secret_file(made.secret)
    options = {"rest.address": "127.0.0.1", "rest.port": 18081, SECRET_FILE: str(made.secret)}
    made.write_configuration(Configuration(options))
    return made


def is_up(cluster: ClusterDirectory, pid: int) -> None:
    ProcessRecord.of("dispatcher", pid).write(cluster.run / "dispatcher-1.json")


@pytest.mark.parametrize("address", ["127.0.0.1:18081", "localhost:18081", "http://127.0.0.1:18081/"])
def test_the_secret_of_a_running_cluster_belongs_to_its_address(cluster: ClusterDirectory, address: str) -> None:
    is_up(cluster, os.getpid())
    assert client_configuration(None, (), address).value(SECRET_FILE) == str(cluster.secret)
    assert client_configuration(None, ("rest.port=18081",), None).value(SECRET_FILE) == str(cluster.secret)


def test_another_address_gets_no_secret(cluster: ClusterDirectory) -> None:
    is_up(cluster, os.getpid())
    for address in ("127.0.0.1:18082", "192.0.2.7:18081"):
        assert client_configuration(None, (), address).value(SECRET_FILE) == ""


@pytest.mark.process
def test_a_stopped_cluster_has_no_address(cluster: ClusterDirectory) -> None:
    for _ in range(2):  # without any record, as after `cluster stop`, and with that of a process that is gone
        for address, options in (("127.0.0.1:18081", ()), (None, ("rest.port=18081",))):
            assert client_configuration(None, options, address).value(SECRET_FILE) == ""
        ended = subprocess.Popen(["true"])
        is_up(cluster, ended.pid)
        ended.wait()
