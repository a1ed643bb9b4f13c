"""Runs programs for a benchmark and leaves none of their processes behind, however the benchmark ends.

Everything that a run starts inherits an environment variable with the run's own value, so that descendants are found in
/proc wherever they moved in the process tree. Processes report to the benchmark through small files (`jobs/marks.py`).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from rows import BenchmarkError

JOBS = Path(__file__).parent / "jobs"
WORKER_MODULE = "millstream.taskmanager.worker.main"
INTERRUPTED = (1, 128 + signal.SIGINT, -signal.SIGINT)  # exit statuses of a job that was cancelled with Ctrl-C
_RUN = "MILLSTREAM_BENCHMARK_RUN"
_MARKS = "MILLSTREAM_BENCHMARK_MARKS"
_GONE_WITHIN = 15.0  # seconds from the end of the started programs to the end of all their descendants
_POLL = 0.01


class Run:
    """A context manager for programs that report to one folder. On exit, all processes of the run are ended."""

    def __init__(self) -> None:
        self._id = uuid.uuid4().hex
        self._directory = Path(tempfile.mkdtemp(prefix="millstream-benchmark-"))
        self._programs: list[subprocess.Popen[bytes]] = []
        self._started = 0.0
        self.started_ns = 0

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._end()
        finally:
            shutil.rmtree(self._directory, ignore_errors=True)

    def start(self, script: str, *arguments: str, python: str = sys.executable) -> None:
        """Starts `python jobs/script arguments`."""
        self.start_command([python, str(JOBS / script), *arguments])

    def start_command(self, command: Sequence[str]) -> None:
        """Starts a program in the folder of the jobs."""
        variables = {**os.environ, _RUN: self._id, _MARKS: str(self._directory), "PYTHONDONTWRITEBYTECODE": ""}
        with self._output(len(self._programs)).open("wb") as output:
            if not self._programs:
                self._started = time.monotonic()
                self.started_ns = time.monotonic_ns()
            self._programs.append(
                subprocess.Popen(
                    command, cwd=JOBS, env=variables, stdin=subprocess.DEVNULL, stdout=output,
                    stderr=subprocess.STDOUT, start_new_session=True,
                )
            )  # fmt: skip

    def wait(self, timeout: float, expected: tuple[int, ...] = (0,)) -> float:
        """Waits for all programs and their descendants to end; returns the seconds since the first start."""
        deadline = time.monotonic() + timeout
        for number, program in enumerate(self._programs):
            try:
                code = program.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise BenchmarkError(
                    f"{self._name(program)} did not end within {timeout:g} s{self._tail(number)}"
                ) from None
            if code not in expected:
                raise BenchmarkError(f"{self._name(program)} exited with status {code}{self._tail(number)}")
        seconds = time.monotonic() - self._started
        self._wait_until_gone()
        return seconds

    @property
    def is_running(self) -> bool:
        """Returns whether any of the programs is still running."""
        return any(program.poll() is None for program in self._programs)

    def interrupt(self) -> None:
        """Sends SIGINT to all programs."""
        for program in self._programs:
            program.send_signal(signal.SIGINT)

    def wait_for(self, condition: Callable[[], Any], what: str, timeout: float) -> None:
        """Waits until `condition()` is true; raises if a program ends before."""
        deadline = time.monotonic() + timeout
        while not condition():
            self.check_alive()
            if time.monotonic() > deadline:
                raise BenchmarkError(f"{what}: not within {timeout:g} s{self._tail(0)}")
            time.sleep(_POLL)

    def check_alive(self) -> None:
        """Raises if a program has ended that should be running."""
        for number, program in enumerate(self._programs):
            if program.poll() is not None:
                raise BenchmarkError(
                    f"{self._name(program)} ended early, status {program.returncode}{self._tail(number)}"
                )

    def marks(self, kind: str) -> list[dict[str, Any]]:
        """Returns the marks that the processes reported under the name `kind`."""
        return [json.loads(path.read_text()) for path in sorted(self._directory.glob(f"{kind}-*.json"))]

    def samples(self, kind: str) -> np.ndarray[Any, Any]:
        """Returns the concatenation of the arrays that the processes reported under the name `kind`."""
        parts = [np.load(path) for path in sorted(self._directory.glob(f"{kind}-*.npy"))]
        if not parts:
            raise BenchmarkError(f"no process reported any {kind}{self._tail(0)}")
        return np.concatenate(parts)

    def workers(self) -> list[int]:
        """Returns the process ids of the run's slot workers."""
        return [pid for pid in self._processes() if WORKER_MODULE in _command_line(pid)]

    def _processes(self) -> list[int]:
        tag = f"{_RUN}={self._id}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with contextlib.suppress(OSError):
                    if tag in (entry / "environ").read_bytes().split(b"\0"):
                        found.append(int(entry.name))
        return found

    def _wait_until_gone(self) -> None:
        deadline = time.monotonic() + _GONE_WITHIN
        while left := self._processes():
            if time.monotonic() > deadline:
                names = "; ".join(f"{pid}: {_command_line(pid)}" for pid in left)
                raise BenchmarkError(f"processes still run {_GONE_WITHIN:g} s after the end of the program: {names}")
            time.sleep(_POLL)

    def _end(self) -> None:
        for program in self._programs:
            if program.poll() is None:
                program.kill()
            program.wait()
        for _ in range(100):
            left = self._processes()
            if not left:
                return
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(_POLL)

    def _output(self, number: int) -> Path:
        return self._directory / f"output-{number}.txt"

    def _tail(self, number: int) -> str:
        lines = self._output(number).read_text(errors="replace").strip().splitlines()[-15:]
        return ":\n" + "\n".join(lines) if lines else ""

    @staticmethod
    def _name(program: subprocess.Popen[bytes]) -> str:
        arguments = program.args
        assert isinstance(arguments, list)
        return " ".join(Path(str(part)).name for part in arguments)


def resident_megabytes(pid: int) -> float | None:
    """Returns the resident memory of a process as reported by the kernel; None if it has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    return None


def _command_line(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""
