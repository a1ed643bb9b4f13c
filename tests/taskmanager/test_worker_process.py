"""What a slot worker sees to in its own process before it runs anything."""

from __future__ import annotations

import subprocess
import sys

import pytest
from waiting import DEADLINE

pytestmark = pytest.mark.process


def test_as_many_files_may_be_open_as_the_host_grants() -> None:
    script = """
import resource
from millstream.core.processes.open_files import allow_open_files
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, most))
allow_open_files()
assert resource.getrlimit(resource.RLIMIT_NOFILE) == (most, most)
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=DEADLINE)
