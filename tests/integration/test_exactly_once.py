"""Sinks contain every record once while slot workers are killed: files in a folder, and results at the client.

The jobs run slowly until the test has killed what it wanted and lets them `go`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from system import DEADLINE, Cluster, given, recovering, wait_until, write_job

pytestmark = pytest.mark.process

RECORDS, KEYS = 3_000, 7

COUNTED = """
import time
from pathlib import Path

def counted(number):
    if not Path("{go}").exists():
        time.sleep(0.02)
    return (number % {keys}, 1)
"""
SOURCE = (
    COUNTED
    + """
from millstream.datastream.connectors.datagen import DataGeneratorSource

numbers = env.from_source(DataGeneratorSource(int, rate_per_second=1_000), None, "numbers")
counts = numbers.map(counted).key_by(lambda t: t[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))
first = counts.filter(lambda t: t[1] <= {records} // {keys})
"""
)
"""Never ends, but only the first counts of each key are written: the result without failures is known."""

EXPECTED = Counter((key, count) for key in range(KEYS) for count in range(1, RECORDS // KEYS + 1))


def options(checkpoints: Path) -> list[str]:
    return given(*recovering(checkpoints, "100ms"))


def lose_two_workers(cluster: Cluster, job_id: str) -> None:
    """One after the other, each after another checkpoint."""
    for _ in range(2):
        cluster.wait_for_checkpoint(job_id)
        cluster.lose_a_worker(job_id)


@contextmanager
def cancelled_after(cluster: Cluster, job_id: str) -> Iterator[None]:
    try:
        yield
    finally:
        cluster.cancel(job_id)


def visible(folder: Path) -> Counter[tuple[int, int]]:
    lines = [line for file in folder.glob("part-*") for line in file.read_text().splitlines()]
    return Counter((int(key), int(count)) for key, count in (line.split(",") for line in lines))


@pytest.mark.parametrize("policy", ["default_rolling_policy(rollover_interval=300)", "on_checkpoint_rolling_policy()"])
def test_killed_slot_workers_leave_every_record_in_the_files_once(
    cluster: Cluster, tmp_path: Path, policy: str
) -> None:
    out, go = tmp_path / "out", tmp_path / "go"
    body = (
        SOURCE.format(keys=KEYS, records=RECORDS, go=go)
        + f"""
from millstream.datastream.connectors.file_system import Encoder, FileSink, RollingPolicy

encoder = Encoder(lambda counted: f"{{counted[0]}},{{counted[1]}}")
sink = FileSink.for_row_format("{out}", encoder).with_rolling_policy(RollingPolicy.{policy})
first.sink_to(sink.with_bucket_check_interval(100)).uid("files")
env.execute("files")
"""
    )
    job_id = cluster.submit(write_job(tmp_path, "files", body), *options(tmp_path / "checkpoints"), parallelism=2)
    with cancelled_after(cluster, job_id):
        lose_two_workers(cluster, job_id)
        go.touch()
        wait_until(lambda: visible(out).total() >= EXPECTED.total(), "all records to be visible")
        cluster.wait_for_checkpoint(job_id)
        assert visible(out) == EXPECTED
        wait_until(lambda: not list(out.glob(".*")), "hidden files to be gone")


BOUNDED = (
    COUNTED
    + """
numbers = env.from_sequence(0, {records} - 1)
counts = numbers.map(counted).key_by(lambda t: t[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))
"""
)
MANY = 12_000
ALL = Counter((key, n) for key in range(KEYS) for n in range(1, len(range(key, MANY, KEYS)) + 1))


@pytest.mark.parametrize("killed", [False, True])
def test_a_bounded_job_has_written_everything_when_it_has_finished(
    cluster: Cluster, tmp_path: Path, killed: bool
) -> None:
    out, go = tmp_path / "out", tmp_path / "go"
    body = (
        BOUNDED.format(keys=KEYS, records=MANY, go=go)
        + f"""
from millstream.datastream.connectors.file_system import Encoder, FileSink

sink = FileSink.for_row_format("{out}", Encoder(lambda counted: f"{{counted[0]}},{{counted[1]}}"))
counts.sink_to(sink).uid("files")
env.execute("files")
"""
    )
    job_id = cluster.submit(write_job(tmp_path, "bounded", body), *options(tmp_path / "checkpoints"), parallelism=2)
    if killed:
        lose_two_workers(cluster, job_id)
    go.touch()
    cluster.wait_for(job_id, "FINISHED")
    assert visible(out) == ALL
    assert not list(out.glob(".*"))


def test_a_bounded_job_with_checkpoints_is_collected_to_its_end(cluster: Cluster, tmp_path: Path) -> None:
    collected, go = tmp_path / "collected", tmp_path / "go"
    go.touch()
    body = (
        BOUNDED.format(keys=KEYS, records=MANY, go=go)
        + f"""
Path("{collected}").write_text("\\n".join("%d,%d" % result for result in counts.execute_and_collect("collected")))
"""
    )
    cluster.run("-p", "2", *options(tmp_path / "checkpoints"), str(write_job(tmp_path, "results", body)))
    lines = [line.split(",") for line in collected.read_text().splitlines()]
    assert Counter((int(key), int(count)) for key, count in lines) == ALL


def test_killed_slot_workers_bring_every_result_to_the_client_once(cluster: Cluster, tmp_path: Path) -> None:
    collected, go = tmp_path / "collected", tmp_path / "go"
    body = (
        SOURCE.format(keys=KEYS, records=RECORDS, go=go)
        + f"""
results = first.execute_and_collect("collected")
with open("{collected}", "w", buffering=1) as file:
    for number in range({EXPECTED.total()}):
        while number == {EXPECTED.total() - 1} and not Path("{go}").exists():
            time.sleep(0.05)
        file.write("%d,%d\\n" % next(results))
results.close()
"""
    )
    job = write_job(tmp_path, "collected", body)
    command = [sys.executable, "-m", "millstream.cli.main", "run", "-m", cluster.rest, "-p", "2"]
    before = {entry["jid"] for entry in cluster.get("/jobs/overview")["jobs"]}
    arguments = [*command, *options(tmp_path / "checkpoints"), str(job)]
    client = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
    try:

        def submitted() -> set[str]:
            return {entry["jid"] for entry in cluster.get("/jobs/overview")["jobs"]} - before

        (job_id,) = wait_until(submitted, "the job to be submitted")
        lose_two_workers(cluster, job_id)
        go.touch()
        _, errors = client.communicate(timeout=DEADLINE)
        assert client.returncode == 0, errors
    finally:
        client.kill()
        client.wait()
    lines = [line.split(",") for line in collected.read_text().splitlines()]
    assert Counter((int(key), int(count)) for key, count in lines) == EXPECTED
    cluster.wait_for(job_id, "CANCELED")


def test_a_job_that_starts_over_without_checkpoints_is_an_error(cluster: Cluster, tmp_path: Path) -> None:
    marker, handed = tmp_path / "failed", tmp_path / "handed"
    body = f"""
from pathlib import Path
from millstream.datastream.connectors.datagen import DataGeneratorSource

def shaky(number):
    if Path("{handed}").exists() and not Path("{marker}").exists():
        Path("{marker}").touch()
        raise OSError("the service is away")
    return number

numbers = env.from_source(DataGeneratorSource(int, rate_per_second=500), None, "numbers")
for result in numbers.map(shaky).execute_and_collect("shaky"):
    Path("{handed}").touch()
"""
    restarts = given("restart-strategy.type=fixed-delay", "restart-strategy.fixed-delay.attempts=3")
    done = cluster.run(*restarts, str(write_job(tmp_path, "shaky", body)), check=False)
    assert done.returncode != 0
    assert "the job started over after" in done.stderr
    assert "execution.checkpointing.interval" in done.stderr


HELD_BACK = """
import time
from pathlib import Path
from millstream.datastream.connectors.file_system import FileSink
from millstream.datastream.functions import MapFunction

class HeldBack(MapFunction):
    def open(self, runtime_context):
        self.waits = runtime_context.get_index_of_this_subtask() == 1

    def map(self, value):
        while self.waits and not Path("{gate}").exists():
            time.sleep(0.05)
        time.sleep(0.001)
        return str(value)

env.from_sequence(1, 10**9).map(HeldBack()).sink_to(FileSink.for_row_format("{out}").build())
env.execute("held back")
"""
"""The second subtask takes no snapshot until the gate exists."""


def test_files_for_a_savepoint_that_fails_with_the_job_are_deleted(cluster: Cluster, tmp_path: Path) -> None:
    out, gate = tmp_path / "out", tmp_path / "gate"
    job = write_job(tmp_path, "held", HELD_BACK.format(gate=gate, out=out))
    job_id = cluster.submit(job, *given(*recovering(tmp_path / "checkpoints", "1h")), parallelism=2)
    with cancelled_after(cluster, job_id):
        try:
            cluster.wait_for(job_id, "RUNNING")
            wait_until(lambda: list(out.glob(".*.inprogress")), "a part of the first subtask")
            body = json.dumps({"target-directory": str(tmp_path / "savepoints")}).encode()
            status, response = cluster.request("POST", f"/jobs/{job_id}/savepoints", body)
            assert status == 202
            wait_until(lambda: list(out.glob(".*.savepoint")), "a part for the savepoint")
            wait_until(lambda: len(cluster.workers()) == 2, "no workers but this job's two")
            for worker in cluster.workers():
                cluster.kill(worker)
            cluster.wait_for_restart(job_id)
            wait_until(lambda: not list(out.glob(".*.savepoint")), "the part to be gone")
            failed = cluster.get(f"/jobs/{job_id}/savepoints/{response['request-id']}")
            assert "failure-cause" in failed["operation"]
        finally:
            gate.touch()


def test_files_that_are_added_later_are_read_once_while_slot_workers_are_killed(
    cluster: Cluster, tmp_path: Path
) -> None:
    inbox, out = tmp_path / "inbox", tmp_path / "out"
    body = f"""
from millstream.common import Duration
from millstream.datastream.connectors.file_system import FileSink, FileSource, RollingPolicy, StreamFormat

lines = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "{inbox}")
source = lines.monitor_continuously(Duration.of_millis(100)).build()
sink = FileSink.for_row_format("{out}").with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
env.from_source(source, None, "inbox").sink_to(sink)
env.execute("monitored")
"""
    job_id = cluster.submit(write_job(tmp_path, "monitored", body), *options(tmp_path / "checkpoints"), parallelism=2)
    expected: Counter[tuple[int, int]] = Counter()

    def add(number: int) -> None:
        inbox.mkdir(exist_ok=True)
        (inbox / f".{number}").write_text("".join(f"{number},{line}\n" for line in range(50)))
        (inbox / f".{number}").rename(inbox / f"{number}.txt")
        expected.update((number, line) for line in range(50))

    with cancelled_after(cluster, job_id):
        cluster.wait_for(job_id, "RUNNING")
        for number in range(2):
            add(2 * number)
            cluster.wait_for_checkpoint(job_id)
            before = sum(cluster.attempts(job_id))
            cluster.kill(wait_until(cluster.workers, "a slot worker")[0])  # the other subtask is not disturbed
            wait_until(lambda before=before: sum(cluster.attempts(job_id)) > before, "another attempt")
            add(2 * number + 1)
        wait_until(lambda: visible(out).total() >= expected.total(), "all lines to be visible")
        cluster.wait_for_checkpoint(job_id)
        assert visible(out) == expected
