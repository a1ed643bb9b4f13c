"""Another user of the same host can neither read the state of a cluster, nor submit to it, nor pose as a part of it.

The other user's actions run as that user, with a separate home; that requires root.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import other_user
import pytest
from processes import fresh_environment, processes_with
from system import Cluster, running_cluster, write_job
from waiting import DEADLINE

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user"),
]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(tmp_path / "cluster", 1, 1) as cluster:
        yield cluster


@pytest.fixture
def their_home() -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix="their-home-"))
    os.chown(home, other_user.NOBODY, other_user.NOBODY)
    yield home
    shutil.rmtree(home)


def test_another_user_is_refused_and_the_owner_needs_no_credentials(
    cluster: Cluster, tmp_path: Path, their_home: Path
) -> None:
    def they(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, other_user.__file__, *arguments], cwd=their_home, text=True, check=False,
            env=fresh_environment(HOME=str(their_home), TMPDIR=str(their_home)), timeout=DEADLINE, capture_output=True,
        )  # fmt: skip

    theirs = write_job(their_home, "theirs", "env.from_collection([1]).print()\nenv.execute('theirs')")
    for command in (["list", "-a"], ["run", "-d", str(theirs)], ["cancel", "0" * 32]):
        done = they("cli", command[0], "-m", cluster.rest, *command[1:])
        assert done.returncode == 1, done
        assert "requires credentials" in done.stderr
    services = [f"127.0.0.1:{cluster.ports[f'{name}.rpc.port']}" for name in ("dispatcher", "resourcemanager")]
    posed = they("pose", *services)
    assert posed.returncode == 0, posed
    assert [line.partition(":")[0] for line in posed.stdout.splitlines()] == ["refused", "refused"]
    secret = cluster.directory / "conf" / "cluster.secret"
    for file in (secret, cluster.directory / "conf" / "curl", cluster.directory / "conf" / "config.yaml"):
        assert "Permission denied" in they("read", str(file)).stderr

    assert cluster.get("/jobs") == {"jobs": []}
    job_id = cluster.submit(write_job(tmp_path, "ours", "env.from_collection([1]).print()\nenv.execute('ours')"))
    cluster.wait_for(job_id, "FINISHED")
    assert job_id in cluster.cli("list", "-a", "-m", cluster.rest).stdout
    (audit,) = (cluster.directory / "log").glob("audit-*.log")
    events = [json.loads(line) for line in audit.read_text().splitlines()]
    done = [(event["job"], event["known by"]) for event in events if event["outcome"] == "done"]
    assert done == [(job_id, "cluster secret")]
    logs = [path.read_text(errors="replace") for path in (cluster.directory / "log").iterdir()]
    assert not any(secret.read_text().strip() in text for text in logs)
    assert processes_with(secret.read_text().strip()) == []  # neither on command lines nor in environments
