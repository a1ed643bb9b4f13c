"""A program that has taken the ports of stopped services learns nothing that authorizes it afterwards.

Commands, curl with the cluster's options and a client with a token reach it where the dispatcher was. It records
everything that they send and responds as each of them expects.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from impostor import impostor
from system import Cluster, running_cluster
from waiting import DEADLINE, wait_until

from millstream.cli.rest import RestClient
from millstream.core.errors import MillstreamError
from millstream.core.services.cluster_secret import cluster_secret

pytestmark = pytest.mark.process


def curl(cluster: Cluster, path: str) -> subprocess.CompletedProcess[str]:
    options = ["curl", "-sS", "-K", str(cluster.directory / "conf" / "curl"), f"http://{cluster.rest}{path}"]
    return subprocess.run(options, capture_output=True, text=True, timeout=DEADLINE, check=False)


def test_an_impostor_on_the_port_of_the_dispatcher_gets_no_token(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "cluster", 0, 1) as cluster:
        assert curl(cluster, "/jobs").stdout == '{"jobs":[]}'
        options = (cluster.directory / "conf" / "curl").read_text()
        assert "Authorization" not in options
        printed = cluster.cli("cluster", "token", "--dir", str(cluster.directory), "--role", "read").stdout.strip()
        token = tmp_path / "token"
        token.touch(0o600)
        token.write_text(printed)
        by_token = cluster.security.merged(
            {
                "security.cluster.secret-file": "", "security.rest.auth.token-file": str(token),
                "rest.port": cluster.ports["rest.port"],
            }
        )  # fmt: skip
        assert RestClient(by_token).get("/jobs") == {"jobs": []}
        own = ("--dir", str(cluster.directory))
        cluster.cli("cluster", "stop", *own, "dispatcher")
        with impostor(cluster.ports["rest.port"]) as other:
            assert curl(cluster, "/jobs").returncode != 0
            refused = cluster.cli("list", "-m", cluster.rest, check=False)
            assert refused.returncode == 1
            assert "does not know the cluster's secret" in refused.stderr
            with pytest.raises(MillstreamError, match="does not know the token"):
                RestClient(by_token).get("/jobs")
            wait_until(lambda: other.connections >= 2, "the clients to have been there")
        secret = cluster_secret(cluster.security)
        assert secret is not None
        assert printed.encode() not in other.recorded
        assert re.search(rb"(?i)authorization|bearer|[0-9a-f]{64}", other.recorded) is None
        cluster.cli("cluster", "start", *own, "dispatcher")
        assert curl(cluster, "/jobs").stdout == '{"jobs":[]}'
        assert RestClient(by_token).get("/jobs") == {"jobs": []}
