"""Executors in separate processes: they read what the driver planned, are killed, and write the same twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from snapshot_maker import Maker

from millstream.core.records import types as t
from millstream.core.snapshot import (
    METADATA_FILE,
    SnapshotMetadata,
    StateTypes,
    read_rows,
    read_state,
    storage_at,
    verify_snapshot,
)

HERE = Path(__file__).parent

pytestmark = [pytest.mark.process, pytest.mark.slow]


def test_separate_executors_read_and_a_killed_one_leaves_a_complete_savepoint_or_none(tmp_path: Path) -> None:
    (tmp_path / "spark").mkdir()
    maker = Maker(tmp_path / "snapshots", rows_per_file=300)
    maker.operator("counter", maker.values("counts", {n: n for n in range(1000)}, StateTypes(t.LONG, t.LONG)))
    target = tmp_path / "savepoint"
    found = ran("cluster_local.py", maker.write(), str(target), str(tmp_path / "spark"))
    assert found["read"] == {"sum": 499500, "one": [[7, 7]], "executors": 2}
    assert found["write"]["killed"]
    if found["write"]["outcome"] != "written":
        assert not (target / METADATA_FILE).exists()
        return
    assert sum(file.rows for file in whole(target).files()) == 20_000


@pytest.mark.long
def test_two_attempts_of_a_task_that_write_at_the_same_time_leave_the_files_of_one(tmp_path: Path) -> None:
    (tmp_path / "spark").mkdir()
    target = tmp_path / "savepoint"
    assert ran("cluster_speculation.py", str(target), str(tmp_path / "spark")) == ["done", "done", "seen", "seen"]
    state = next(state for state in whole(target).operators[0].states if state.name == "twice")
    storage, location = storage_at(str(target))
    rows = [read_rows(read_state(storage, location, state, f, max_parallelism=64), state) for f in state.files]
    found = [pair for some in rows for pair in zip(some.keys, some.content, strict=True)]
    assert sorted(found) == [(n, 2 * n) for n in range(200)]


def whole(target: Path) -> SnapshotMetadata:
    """A savepoint that has its files, and no others."""
    storage, location = storage_at(str(target))
    metadata = verify_snapshot(storage, location)
    assert {str(path.relative_to(target)) for path in target.rglob("*.parquet")} == {f.path for f in metadata.files()}
    return metadata


def ran(program: str, *arguments: str) -> Any:
    """The result of a program with a cluster of its own."""
    done = subprocess.run(
        [sys.executable, str(HERE / program), *arguments],
        capture_output=True, text=True, timeout=240, check=False, env={**os.environ, "PYTHONPATH": str(HERE)},
    )  # fmt: skip
    found = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert found, done.stderr[-3000:]
    return json.loads(found[0].removeprefix("FOUND "))
