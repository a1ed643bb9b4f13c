"""The installation of the README, in a fresh environment with nothing but pip."""

from __future__ import annotations

import re
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
    blocks = blocks_of(ROOT / "README.md")
    (install,) = (block.text for block in blocks if "pip install" in block.text)
    (job,) = (block.text for block in blocks if block.file == "job.py")
    (tmp_path / "job.py").write_text(job)
    clone = tmp_path / "clone"
    shutil.copytree(ROOT, clone, ignore=shutil.ignore_patterns(".*", "__pycache__", "*_pb2.py", "*_pb2.pyi", "tests"))
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True, timeout=120)
    python = str(tmp_path / "venv" / "bin" / "python")
    commands = re.findall(r"^python (-m pip install .*?)\s*(?:#.*)?$", install, re.M)
    assert len(commands) == 2
    for command in commands:
        arguments = [part.strip("'") for part in command.split()]
        subprocess.run([python, *arguments, "--quiet"], cwd=clone, check=True, timeout=600)
        done = subprocess.run([python, "job.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
        assert "(the,4)" in done.stdout
