"""The shell that the commands of the documentation are run in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from doc_shell import DEADLINE, Shell
from waiting import wait_until


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    made = Shell(tmp_path)
    try:
        yield made
        wait_until(lambda: not made.left_running(), "processes are left running", DEADLINE)
    finally:
        made.kill_rest()
