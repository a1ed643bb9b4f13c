"""The installation of the README, in a fresh environment with nothing but pip."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from doc_blocks import ROOT, blocks_of


@pytest.mark.long
@pytest.mark.process
@pytest.mark.timeout(900)
def test_installing_into_a_fresh_environment_and_running_the_job(tmp_path: Path) -> None:
    (install,) = (block.text for block in blocks_of(ROOT / "README.md") if "pip install" in block.text)
    commands = [line.split() for line in install.splitlines()]
    assert [command[0] for command in commands] == ["python", "python"], "it installs, and runs an example"
    clone = tmp_path / "clone"
    without = shutil.ignore_patterns(".*", "__pycache__", "*_pb2.py", "*_pb2.pyi", "tests", "node_modules")
    shutil.copytree(ROOT, clone, ignore=without)
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True, timeout=120)
    python = str(tmp_path / "venv" / "bin" / "python")
    for command in commands:
        done = subprocess.run(
            [python, *command[1:]], cwd=clone, capture_output=True, text=True, timeout=600, check=True
        )
    assert "(the,4)" in done.stdout
