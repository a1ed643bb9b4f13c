"""Folders of programs: private, gone after their use, and removed by the next dispatcher when theirs was killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from millstream.dispatcher.scratch import ScratchFolders

pytestmark = pytest.mark.process

_KILLED = """
import os, sys
from pathlib import Path
from millstream.dispatcher.scratch import ScratchFolders
with ScratchFolders(Path(sys.argv[1])).folder() as folder:
    (folder / "stderr").touch()
    os._exit(9)
"""


def names(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir() if path.is_dir())


def test_what_a_killed_dispatcher_left_goes_and_what_is_used_stays(tmp_path: Path) -> None:
    assert subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path)]).returncode == 9
    (left,) = names(tmp_path)
    with ScratchFolders(tmp_path).folder() as used:
        assert used.stat().st_mode & 0o777 == 0o700
        ScratchFolders(tmp_path).remove_dead()
        assert names(tmp_path) == [used.name] != [left]
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]
