"""Outages of what a job depends on: a disk, a server. And a record that fails after every restart."""

from __future__ import annotations

import os
import re
import shlex
import socket
from collections import Counter
from pathlib import Path

import pytest
from ports import free_port
from system import Cluster, completed, given, recovering, wait_until, write_job

pytestmark = pytest.mark.process

RECORDS, KEYS = 2_000, 7
LIMIT = 3  # the default of restart-strategy.same-error-limit
EXPECTED = Counter((x % KEYS, (x - 1) // KEYS + 1) for x in range(1, RECORDS + 1))

JOB = """
import socket
import time
from pathlib import Path

from millstream.datastream.connectors.file_system import Encoder, FileSink, RollingPolicy
from millstream.datastream.functions import MapFunction, SinkFunction

HERE = Path("{here}")

def counted(x):
    if not (HERE / "go").exists():
        time.sleep(0.002)
    if {poison}:
        raise ValueError("no number")
    return (x % {keys}, 1)

class Journal(SinkFunction):
    def open(self, runtime_context):
        if (HERE / "server").exists():
            socket.create_connection(("127.0.0.1", int((HERE / "server").read_text()))).close()

    def invoke(self, value, context):
        with open(HERE / "disk", "a") as file:
            print(value, file=file, flush=True)

counts = env.from_sequence(1, {records}).map(counted).key_by(lambda t: t[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))
encoder = Encoder.simple_string_encoder()
rolling = RollingPolicy.on_checkpoint_rolling_policy()
sink = FileSink.for_row_format(str(HERE / "out"), encoder).with_rolling_policy(rolling)
counts.map(lambda t: f"{{t[0]}},{{t[1]}}").sink_to(sink.build())
counts.add_sink(Journal())
env.execute("outages")
"""


def job(folder: Path, poison: str = "False") -> Path:
    return write_job(folder, "outages", JOB.format(here=folder, keys=KEYS, records=RECORDS, poison=poison))


def written(folder: Path) -> Counter[tuple[int, int]]:
    lines = [line for file in (folder / "out").rglob("part-*") for line in file.read_text().split()]
    return Counter((int(key), int(count)) for key, count in (line.split(",") for line in lines))


def linked(link: Path, target: Path) -> None:
    """Replaces the link at once, whatever it was."""
    (link.parent / "link").symlink_to(target)
    os.replace(link.parent / "link", link)


def test_a_full_disk_and_a_refused_connection_end_no_job_however_often_it_restarts(
    cluster: Cluster, tmp_path: Path
) -> None:
    options = given(*recovering(tmp_path / "checkpoints", attempts=10_000))
    job_id = cluster.submit_running(job(tmp_path), *options, parallelism=2)

    def restarted(times: int) -> None:
        before = cluster.get(f"/jobs/{job_id}")["restarts"]
        wait_until(lambda: cluster.get(f"/jobs/{job_id}")["restarts"] >= before + times, f"{times} more restarts")

    cluster.wait_for_checkpoint(job_id)
    linked(tmp_path / "disk", Path("/dev/full"))
    restarted(LIMIT + 2)
    assert "No space left on device" in str(cluster.exceptions(job_id)[0])
    port = free_port()
    (tmp_path / "server").write_text(str(port))
    linked(tmp_path / "disk", tmp_path / "another-disk")
    restarted(LIMIT + 2)
    assert "Connection refused" in str(cluster.exceptions(job_id)[0])
    with socket.create_server(("127.0.0.1", port), backlog=128):
        (tmp_path / "go").touch()
        cluster.wait_for(job_id, "FINISHED")
    assert written(tmp_path) == EXPECTED


def test_a_poisonous_record_ends_the_job_with_its_last_checkpoint_and_the_command_to_start_from_it(
    cluster: Cluster, tmp_path: Path
) -> None:
    checkpoints = tmp_path / "check points"
    poison = "x >= 300 and not (HERE / 'go').exists() and list(HERE.rglob('_metadata.json'))"
    options = ["-p", "2", *given(*recovering(checkpoints, attempts=10_000))]
    done = cluster.run(*options, str(job(tmp_path, poison)), check=False)
    assert done.returncode == 1
    assert f"the same error occurred {LIMIT} times in a row at the record " in done.stderr
    assert len(completed(checkpoints)) == 1
    command = shlex.split(re.search(r"`(millstream run .*)`", done.stderr)[1])  # type: ignore[index]  # or it fails here
    (kept,) = checkpoints.rglob("_metadata.json")
    assert command[:4] == ["millstream", "run", "-s", kept.parent.as_uri()]
    job_id = done.stdout.split("JobID", 1)[1].split()[0]
    for message in (
        cluster.get(f"/jobs/{job_id}/exceptions")["message"],
        cluster.cli("events", "-m", cluster.rest, job_id).stdout,
        cluster.cli("exceptions", "-m", cluster.rest, job_id).stdout,
        (cluster.directory / "log" / "jobmanager-1.log").read_text(),
    ):
        assert f"`millstream run -s {kept.parent.as_uri()} PROGRAM`" in message

    (tmp_path / "go").touch()
    cluster.cli(*command[1:])
    assert written(tmp_path) == EXPECTED
