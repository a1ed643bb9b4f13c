"""Checkpoints and savepoints in object storage: a job restarts from a checkpoint, and stops with and continues from a
savepoint.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyarrow import fs
from system import Cluster, given, recovering, wait_until, write_job

pytestmark = pytest.mark.process

RECORDS, KEYS, RATE = 3_000, 7, "25"  # a job is stopped long before its end
BODY = """
import sys
from millstream.common import Types
from millstream.datastream.connectors.datagen import DataGeneratorSource
from millstream.datastream.connectors.file_system import Encoder, FileSink, RollingPolicy

rate = float(sys.argv[2]) if len(sys.argv) > 2 else None
numbers = env.from_source(DataGeneratorSource(int, {records}, rate, Types.LONG()), None, "numbers").uid("numbers")
pairs = numbers.map(lambda x: (x % {keys}, 1), Types.TUPLE([Types.LONG(), Types.LONG()]))
counts = pairs.key_by(lambda t: t[0], Types.LONG()).reduce(lambda a, b: (a[0], a[1] + b[1])).uid("counts")
sink = FileSink.for_row_format(sys.argv[1], Encoder(lambda t: "%d,%d" % t))
counts.sink_to(sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())).uid("files")
env.execute("counts")
"""
EXPECTED = Counter(f"{key},{n}" for key in range(KEYS) for n in range(1, len(range(key, RECORDS, KEYS)) + 1))


def written(folder: Path) -> Counter[str]:
    return Counter(line for file in folder.glob("part-*") for line in file.read_text().splitlines())


def names(uri: str) -> list[str]:
    system, path = fs.FileSystem.from_uri(uri)
    found = system.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True))
    return [info.path for info in found if info.type is fs.FileType.File]


def test_a_job_uses_object_storage_for_all_its_state(cluster: Cluster, tmp_path: Path, s3_root: str) -> None:
    checkpoints, savepoints = s3_root.format(path="job/checkpoints"), s3_root.format(path="job/savepoints")
    script = write_job(tmp_path, "counts", BODY.format(records=RECORDS, keys=KEYS))
    wanted = (f"execution.checkpointing.savepoint-dir={savepoints}", "execution.checkpointing.incremental=true")
    options = given(*recovering(checkpoints), *wanted)
    out = tmp_path / "out"
    job_id = cluster.submit_running(script, *options, parallelism=2, arguments=(str(out), RATE))

    def complete() -> list[str]:
        return [name for name in names(checkpoints) if name.endswith("_metadata.json")]

    wait_until(complete, "a checkpoint in the bucket")
    cluster.kill(cluster.workers()[0])

    def after_restore() -> bool:
        latest = cluster.get(f"/jobs/{job_id}/checkpoints")["latest"]
        return bool(latest["restored"]) and latest["completed"]["id"] > latest["restored"]["id"]

    wait_until(after_restore, "a checkpoint after a restore")
    cluster.cli("stop", "-m", cluster.rest, job_id)
    assert cluster.state(job_id) == "FINISHED"
    before = written(out)
    assert 0 < before.total() < RECORDS
    (metadata,) = (name for name in names(savepoints) if name.endswith("_metadata.json"))
    savepoint = s3_root.format(path=metadata.removeprefix("bucket/").removesuffix("/_metadata.json"))
    assert "counts" in cluster.cli("state", "ls", savepoint).stdout
    again = cluster.submit(script, "-s", savepoint, *options, parallelism=3, arguments=(str(out),))
    cluster.wait_for(again, "FINISHED")
    assert written(out) == EXPECTED
    wait_until(lambda: not names(checkpoints), "nothing of the checkpoints to be left")
    assert [name for name in names(savepoints) if name.endswith("_metadata.json")] == [metadata]


def test_a_savepoint_uses_the_options_in_its_target(cluster: Cluster, tmp_path: Path, s3_root: str) -> None:
    """No object store is configured for the job: credentials and options are part of the savepoint's directory."""
    savepoints = s3_root.format(path="elsewhere")
    script = write_job(tmp_path, "counts", BODY.format(records=RECORDS, keys=KEYS))
    out = tmp_path / "out"
    job_id = cluster.submit_running(script, parallelism=2, arguments=(str(out), RATE))
    output = cluster.cli("stop", "-m", cluster.rest, "-p", savepoints, job_id).stdout
    (metadata,) = (name for name in names(savepoints) if name.endswith("_metadata.json"))
    folder = metadata.removesuffix("/_metadata.json")
    assert output == f"Savepoint completed. Path: s3://{folder}\n"
    assert "testsecret" not in str(cluster.get(f"/jobs/{job_id}/checkpoints"))
    savepoint = s3_root.format(path=folder.removeprefix("bucket/"))
    again = cluster.submit(script, "-s", savepoint, parallelism=3, arguments=(str(out),))
    cluster.wait_for(again, "FINISHED")
    assert written(out) == EXPECTED
    cluster.cli("savepoint", "-m", cluster.rest, "--dispose", savepoint)
    assert names(savepoints) == []
