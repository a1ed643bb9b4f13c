"""Runs examples as users do: as processes of their own, with temporary files of their own, and a deadline."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
DEADLINE = 500.0


class Example:
    """A running example. Everything that it starts inherits its temporary folder, and is found by it."""

    def __init__(self, name: str, arguments: tuple[str, ...], folder: Path) -> None:
        self.folder = folder
        dropped = ("MILLSTREAM_CONF_DIR", "MILLSTREAM_CLUSTER_DIR", "PYTHONPATH")
        variables = {key: value for key, value in os.environ.items() if key not in dropped}
        self.process = subprocess.Popen(
            [sys.executable, str(EXAMPLES / name), *arguments],
            cwd=folder,
            env={**variables, "TMPDIR": str(folder)},
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
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if f"TMPDIR={self.folder}\0".encode() in (process / "environ").read_bytes():
                    found.append(int(process.name))
        return found

    def kill(self) -> None:
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.communicate()
