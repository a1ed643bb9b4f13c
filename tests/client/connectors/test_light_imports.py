"""Importing the connectors must stay light: a job that uses no columns never loads Arrow."""

from __future__ import annotations

import subprocess
import sys

import pytest
from waiting import DEADLINE

pytestmark = pytest.mark.process

_PROGRAM = """
import sys
import millstream.core.records.conversion
from millstream.datastream.connectors import (
    base, collection, datagen, file_system, number_sequence, print as printing, socket
)
heavy = {"pyarrow", "numpy", "pandas"} & set(sys.modules)
assert not heavy, heavy
"""


def test_no_heavy_library_is_imported() -> None:
    command = [sys.executable, "-c", _PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert done.returncode == 0, done.stderr
