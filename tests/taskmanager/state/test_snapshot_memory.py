"""A state ten times as large as an allowance of memory is written and restored within this allowance.

In processes of their own, whose peak of resident memory is measured.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from waiting import DEADLINE

pytestmark = [pytest.mark.slow, pytest.mark.process]

_PROGRAM = Path(__file__).with_name("written_and_restored.py")
_KEYS = 900_000


def run(what: str, folder: Path) -> dict[str, Any]:
    command = [sys.executable, str(_PROGRAM), what, str(_KEYS), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10 * DEADLINE, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_state_of_ten_times_an_allowance_is_written_and_restored_within_it(tmp_path: Path) -> None:
    written = run("write", tmp_path)
    allowance = written["state"] / 10
    assert written["peak"] - written["size"] <= allowance, written
    restored = run("restore", tmp_path)
    assert restored["keys"] == _KEYS
    assert restored["peak"] - restored["empty"] <= written["state"] + allowance, (written, restored)
