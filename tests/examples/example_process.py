"""Runs examples as users do: as processes of their own, with temporary files of their own, and a deadline."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from processes import fresh_environment, kill_those_with, processes_with

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
DEADLINE = 500.0


class Example:
    """A running example. Everything that it starts inherits its temporary folder, and is found by it."""

    def __init__(self, name: str, arguments: tuple[str, ...], folder: Path) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, str(EXAMPLES / name), *arguments],
            cwd=folder,
            env=fresh_environment(TMPDIR=str(folder)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def wait_for_line(self, part: str) -> None:
        """Reads the output until a line has this in it. The test's own timeout is the deadline."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if part in line:
                return
        raise AssertionError(f"the example ended without saying {part!r}: {self.process.communicate()[1]}")

    def output(self) -> str:
        """What it prints until its end, which must be a success."""
        output, errors = self.process.communicate(timeout=DEADLINE)
        assert self.process.returncode == 0, output + errors
        return output

    def processes(self) -> list[int]:
        """Itself and everything that it started and that still runs."""
        return processes_with(f"TMPDIR={self.folder}\0")

    def kill(self) -> None:
        kill_those_with(f"TMPDIR={self.folder}\0")
        self.process.communicate()
