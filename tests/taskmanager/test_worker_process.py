"""What a slot worker sets up in its own process before it runs anything."""

from __future__ import annotations

import subprocess
import sys

import pytest
from waiting import DEADLINE

pytestmark = pytest.mark.process


def test_the_limit_of_open_files_is_raised_to_the_maximum() -> None:
    script = """
import resource
from millstream.core.processes.open_files import allow_open_files
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, most))
allow_open_files()
assert resource.getrlimit(resource.RLIMIT_NOFILE) == (most, most)
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=DEADLINE)
