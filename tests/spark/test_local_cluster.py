"""Executors in processes of their own read what the driver planned."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from snapshot_maker import Maker

from millstream.core.records import types as t
from millstream.core.snapshot import StateTypes

HERE = Path(__file__).parent

pytestmark = pytest.mark.process


def test_a_state_is_read_by_separate_executors(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "snapshots", rows_per_file=300)
    maker.operator("counter", maker.values("counts", {n: n for n in range(1000)}, StateTypes(t.LONG, t.LONG)))
    done = subprocess.run(
        [sys.executable, str(HERE / "cluster_read.py"), maker.write(), str(tmp_path / "spark")],
        capture_output=True, text=True, timeout=240, check=False, env={**os.environ, "PYTHONPATH": str(HERE)},
    )  # fmt: skip
    told = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert told, done.stderr[-3000:]
    assert json.loads(told[0].removeprefix("FOUND ")) == {"sum": 499500, "one": [[7, 7]], "executors": 2}
