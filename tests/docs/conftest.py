"""The shell that the commands of the documentation are run in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from doc_shell import Shell, until


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    made = Shell(tmp_path)
    try:
        yield made
        until(lambda: not made.left_running(), "processes are left running")
    finally:
        made.kill_rest()
