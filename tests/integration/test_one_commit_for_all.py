"""Jobs whose sink commits once for all subtasks: each checkpoint has one manifest, each record is in one of them."""

from __future__ import annotations

import importlib.util
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from system import Cluster, given, recovering, wait_until, write_job

from millstream.common import Configuration
from millstream.datastream import RuntimeExecutionMode, StreamExecutionEnvironment

pytestmark = pytest.mark.process

SINK = Path(__file__).parents[1] / "client" / "connectors" / "manifest_sink.py"
RECORDS = 3_000


def loaded() -> Any:
    """The module of the sink, which is in the folder of other tests."""
    spec = importlib.util.spec_from_file_location("manifest_sink", SINK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["manifest_sink"] = module
    spec.loader.exec_module(module)
    return module


sink = loaded()


@pytest.mark.parametrize("mode", [RuntimeExecutionMode.STREAMING, RuntimeExecutionMode.BATCH])
def test_a_job_without_checkpoints_commits_once_at_its_end(tmp_path: Path, mode: RuntimeExecutionMode) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration({"execution.local.in-process": "true"}))
    env.set_parallelism(2).set_runtime_mode(mode)
    env.from_sequence(1, 100).sink_to(sink.ManifestSink(str(tmp_path)))
    env.execute("manifest")
    assert sorted(sink.visible(tmp_path)) == list(range(1, 101))
    (manifest,) = sink.manifests(tmp_path)
    assert manifest["checkpoint"] is None
    assert len({part.partition("-")[0] for part in manifest["parts"]}) == 2, "parts of both subtasks"


def test_a_job_that_fails_continues_from_its_checkpoint_and_lists_each_record_once(tmp_path: Path) -> None:
    """It fails once, behind a commit, and the commit that runs then takes its time."""
    failed, out = tmp_path / "failed", tmp_path / "out"
    options = {"execution.local.in-process": "true"}
    options |= dict(option.split("=", 1) for option in recovering(tmp_path / "checkpoints", "50ms"))
    env = StreamExecutionEnvironment.get_execution_environment(Configuration(options))
    env.set_parallelism(2)

    def shaky(number: int) -> int:
        if not failed.exists():
            time.sleep(0.005)
            if number % 2 and len(list((out / "manifests").glob("*.json"))) > 1:
                failed.touch()
                raise OSError("the service is away")
        return number

    env.from_sequence(1, RECORDS).map(shaky).sink_to(sink.ManifestSink(str(out), 0.1)).uid("manifest")
    env.execute("manifest")
    assert failed.exists()
    assert sorted(sink.visible(out)) == list(range(1, RECORDS + 1))
    found = sink.manifests(out)
    assert len({manifest["checkpoint"] for manifest in found}) == len(found) > 2, "one for each checkpoint"
    assert any(len({part.partition("-")[0] for part in manifest["parts"]}) == 2 for manifest in found)


JOB = """
import time
from pathlib import Path
from manifest_sink import ManifestSink

def slowly(number):
    if not Path("{go}").exists():
        time.sleep(0.01)
    return number

env.from_sequence(1, {records}).map(slowly).sink_to(ManifestSink("{out}")).uid("manifest")
env.execute("manifest")
"""


@pytest.mark.parametrize("unaligned", ["false", "true"])
def test_killed_slot_workers_leave_every_record_in_one_manifest(
    cluster: Cluster, tmp_path: Path, unaligned: str
) -> None:
    out, go = tmp_path / "out", tmp_path / "go"
    script = write_job(tmp_path, "manifest", JOB.format(records=RECORDS, go=go, out=out))
    options = recovering(tmp_path / "checkpoints", "100ms")
    more = (f"python.files={SINK}", f"execution.checkpointing.unaligned.enabled={unaligned}")
    job_id = cluster.submit(script, *given(*options, *more), parallelism=2)
    for _ in range(2):
        wait_until(lambda: (out / "manifests").exists() and sink.manifests(out), "a manifest")
        cluster.wait_for_checkpoint(job_id)
        cluster.lose_a_worker(job_id)
    go.touch()
    cluster.wait_for(job_id, "FINISHED")
    assert sorted(sink.visible(out)) == list(range(1, RECORDS + 1))
    found = sink.manifests(out)
    assert len({manifest["checkpoint"] for manifest in found}) == len(found) > 1, "one for each checkpoint"
    assert any(len({part.partition("-")[0] for part in manifest["parts"]}) == 2 for manifest in found)
