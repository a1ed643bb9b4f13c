"""Stacks of slot workers, sampled from outside by py-spy, which needs nothing of a worker's interpreter.

Whether it is permitted is found out by trying: it is not installed everywhere, and tracing another process takes a
right that containers and hardened hosts do not give. A refusal is remembered for all workers of this task manager.

A sample starts a process, which stops the worker for some milliseconds and prints its stacks with the addresses of
local variables: by those, a stack is attributed to a task. Workers are sampled one after another, so that many slots do
not take more of a host than one.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import subprocess
import sysconfig
import time
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from millstream.core.inspection.frames import SeenFrame
from millstream.core.jobs.ids import AttemptId
from millstream.core.logs.printable import printable
from millstream.core.messages.inspection import PlacedTask, SampledStack, SampleRequest
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.services import TASKMANAGER_PROFILER_SAMPLER
from millstream.taskmanager.stack_reading import WAITING, Seen, StackReader, added_up

log = logging.getLogger(__name__)
OPTION = TASKMANAGER_PROFILER_SAMPLER
_PATIENCE = 5.0  # seconds for one sample
_REFUSED = ("permission denied", "operation not permitted")
_LONGEST_REASON = 300


class _Local(Struct, frozen=True):
    name: str
    addr: int = 0


class _Frame(Struct, frozen=True):
    name: str
    filename: str
    line: int = 0
    locals: tuple[_Local, ...] | None = None


class _Thread(Struct, frozen=True):
    thread_id: int
    active: bool
    frames: tuple[_Frame, ...]
    thread_name: str | None = None


_THREADS = msgspec.json.Decoder(list[_Thread])


class Target(Struct, frozen=True):
    """A worker to sample."""

    pid: int
    tasks: tuple[PlacedTask, ...]
    waits: Mapping[AttemptId, str]


class LookError(Exception):
    """A worker could not be sampled; the message is for users."""


class PySpy:
    """Of one task manager. `sample` is called on any thread."""

    def __init__(self, configuration: Configuration, program: str | None = None) -> None:
        self._wanted = configuration.get(OPTION)
        self._program = _installed() if program is None else program
        self._refusal = ""

    @property
    def is_used(self) -> bool:
        """Whether workers are sampled in this way."""
        return self._wanted != "worker" and not self.problem

    @property
    def problem(self) -> str:
        """Why it cannot be used here, as far as is known; empty when it can."""
        return self._refusal if self._program else "py-spy is not installed: pip install 'millstream[profile]'"

    @property
    def is_required(self) -> bool:
        """Whether nothing else may be used."""
        return self._wanted == "py-spy"

    def sample(self, request: SampleRequest, targets: Sequence[Target]) -> list[tuple[SampledStack, ...] | LookError]:
        """Returns the stacks of each worker, or why there are none; blocks for as long as the request says, or longer.

        A worker that cannot be sampled once is left out from then on.
        """
        interval, began = request.interval_ms / 1000, time.monotonic()
        found = [Counter[Seen]() for _ in targets]
        errors: dict[int, LookError] = {}
        for number in range(request.samples):
            for index, target in enumerate(targets):
                if index not in errors:
                    try:
                        found[index].update(_seen(request, target, self._look(target.pid)))
                    except LookError as error:
                        errors[index] = error
            left = began + (number + 1) * interval - time.monotonic()
            over = time.monotonic() - began >= request.samples * interval
            if over or len(errors) == len(targets):
                break
            time.sleep(max(left, 0.0))
        return [errors[i] if i in errors and not seen else added_up(seen) for i, seen in enumerate(found)]

    def _look(self, pid: int) -> list[_Thread]:
        """Raises LookError."""
        command = [self._program, "dump", "--pid", str(pid), "--json", "--locals", "--full-filenames"]
        try:
            ran = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=_PATIENCE, check=False)
        except subprocess.TimeoutExpired as error:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGCONT)  # py-spy may have been killed while it held the worker
            raise LookError(f"py-spy took longer than {_PATIENCE:g} s") from error
        except OSError as error:
            raise LookError(f"py-spy cannot be started: {error}") from error
        if ran.returncode == 0:
            with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
                return _THREADS.decode(ran.stdout)
        message = " ".join(ran.stderr.decode(errors="replace").split())[:_LONGEST_REASON]
        reason = f"py-spy cannot sample it: {printable(message) or 'its output cannot be read'}"
        if any(refused in message.lower() for refused in _REFUSED) and not self._refusal:
            self._refusal = reason
            log.info("sampling slot workers from inside from now on: %s", reason)
        raise LookError(reason)


def _installed() -> str:
    return shutil.which("py-spy", path=sysconfig.get_path("scripts")) or shutil.which("py-spy") or ""


def _seen(request: SampleRequest, target: Target, threads: Sequence[_Thread]) -> list[Seen]:
    reader = StackReader(request, lambda task: target.waits.get(task.attempt_id, WAITING))
    path = {folder.rstrip("/") for task in target.tasks for folder in task.search_path if folder}
    found: list[Seen] = []
    for thread in threads:
        frames = [_frame(frame, path) for frame in reversed(thread.frames)]
        name = thread.thread_name or f"thread {thread.thread_id}"
        stacks = reader.stacks(name, frames, target.tasks)
        found += [(names, may_be_on and thread.active, subtask) for names, may_be_on, subtask in stacks]
    return found


def _frame(frame: _Frame, path: set[str]) -> SeenFrame:
    addresses = {local.name: local.addr for local in frame.locals or ()}
    module = module_in(frame.filename, path)
    return SeenFrame(
        frame.name, frame.filename, frame.line, module, addresses.get("self", 0), addresses.get("task", 0)
    )


def module_in(file: str, path: set[str]) -> str:
    """The name of the module that is in a file, by where modules are imported from; empty: it is in none of these."""
    if file.startswith("<frozen "):
        return file.removeprefix("<frozen ").rstrip(">")
    folder, _, name = file.rpartition("/")
    parts = [name.removesuffix(".py")]
    while folder:
        if folder in path:
            return ".".join(parts).removesuffix(".__init__")
        folder, _, name = folder.rpartition("/")
        parts.insert(0, name)
    return ""
