"""Other versions of Python, where they are installed: through pyenv, or on the PATH."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

INTERPRETERS = ("3.11", "3.12", "3.13")


def find(version: str) -> str | None:
    """The path of an interpreter of the version."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = sorted(root.glob(f"versions/{version}.*/bin/python"))
    return str(found[-1]) if found else shutil.which(f"python{version}")


def run_in(version: str, program: str) -> str:
    """The output of a program that imports only what needs no other packages, such as parts of `core`."""
    interpreter = find(version)
    if interpreter is None:
        pytest.skip(f"Python {version} is not installed")
    core = Path(__file__).parents[1] / "core"
    done = subprocess.run(
        [interpreter, "-c", program],
        env={"PYTHONPATH": str(core), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout
