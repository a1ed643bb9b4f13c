"""A slot worker that is stopped, or whose function closes its descriptors, has no peer at parallelism 1 that notices.

Its task manager does: the job continues from its last checkpoint, and its results are exact.
"""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path

import pytest
from system import Cluster, given, recovering, wait_until, write_job

pytestmark = [pytest.mark.process, pytest.mark.slow]

RECORDS, KEYS = 2_000, 7

JOB = """
import os
from pathlib import Path
from millstream.datastream.connectors.datagen import DataGeneratorSource
from millstream.datastream.connectors.file_system import Encoder, FileSink, RollingPolicy

def counted(number):
    if Path("{close}").exists():
        Path("{close}").unlink()
        os.closerange(3, 10_000)
    return (number % {keys}, 1)

numbers = env.from_source(DataGeneratorSource(int, rate_per_second=200), None, "numbers")
counts = numbers.map(counted).key_by(lambda t: t[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))
encoder = Encoder(lambda counted: f"{{counted[0]}},{{counted[1]}}")
sink = FileSink.for_row_format("{out}", encoder).with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
counts.filter(lambda t: t[1] <= {records} // {keys}).sink_to(sink).uid("files")
env.execute("frozen")
"""

EXPECTED = Counter(f"{key},{count}" for key in range(KEYS) for count in range(1, RECORDS // KEYS + 1))


def test_a_job_of_one_worker_continues_exactly_when_that_is_frozen_or_loses_its_descriptors(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    out, close = tmp_path / "out", tmp_path / "close"
    body = JOB.format(out=out, close=close, keys=KEYS, records=RECORDS)
    options = given(*recovering(tmp_path / "checkpoints"))
    job_id = own_cluster.submit_running(write_job(tmp_path, "frozen", body), *options)
    own_cluster.wait_for_checkpoint(job_id)
    (worker,) = own_cluster.workers()
    own_cluster.kill(worker, signal.SIGSTOP)
    own_cluster.wait_for_restart(job_id)
    assert "it was stopped (SIGSTOP) and not continued" in own_cluster.exceptions(job_id)[0]["stacktrace"]
    own_cluster.wait_for_checkpoint(job_id)
    before = max(own_cluster.attempts(job_id))
    close.touch()
    own_cluster.wait_for_restart(job_id, before)
    assert "its control connection was closed" in own_cluster.exceptions(job_id)[0]["stacktrace"]

    def visible() -> Counter[str]:
        return Counter(line for file in out.glob("part-*") for line in file.read_text().splitlines())

    wait_until(lambda: visible() >= EXPECTED, "all results to be visible")
    assert visible() == EXPECTED
    own_cluster.cancel(job_id)
