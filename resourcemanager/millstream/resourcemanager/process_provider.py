"""Starts task managers as processes on this host when they are wanted, and ends them.

Each process leads a session of its own and carries a token in its environment that it sends when it registers. It is
recorded in a file, so that a resource manager that comes back at the same address knows the processes of the one
before it, and `millstream cluster stop` finds them all. A process that dies before it registers is replaced, later
each time.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path

from msgspec import Struct

from millstream.core.backoff import Backoff
from millstream.core.files.directories import for_user_only, work_directory
from millstream.core.jobs.ids import new_id
from millstream.core.logs.log_files import log_folder
from millstream.core.processes.handed_down import secret_options
from millstream.core.services.leader_lookup import Role, address_options
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.services import (
    ENV_LOG_DIR,
    ENV_LOG_MAX,
    HEALTH_PORT,
    HEARTBEAT_TIMEOUT,
    TASKMANAGER_RPC_PORT,
)
from millstream.core.settings.secrets import split_options
from millstream.core.settings.variables import PROVIDER_TOKEN
from millstream.resourcemanager.process_records import ProcessRecord, processes_with, read_records

log = logging.getLogger(__name__)
_PROVIDED = re.compile(r"taskmanager-([0-9a-f]{8})\.")


class _Phase(Enum):
    STARTING = "starting"
    REGISTERED = "registered"
    ENDING = "ending"


class _Started(Struct):
    token: str
    record: ProcessRecord
    record_path: Path
    log_path: Path
    phase: _Phase
    process: asyncio.subprocess.Process | None  # None: started by the resource manager before this one
    reaper: asyncio.TimerHandle | None = None
    watcher: asyncio.Task[None] | None = None


def task_manager_command(configuration: Configuration) -> list[str]:
    """The command of a task manager on this host with the same options, but those that others must not see."""
    plain, _ = split_options(configuration.to_dict())
    options = [part for key, value in plain.items() for part in ("-D", f"{key}={value}")]
    return [sys.executable, "-P", "-m", "millstream.cli.main", "taskmanager", *options]


class ProcessProvider:
    """The provider `process`. The command is handed in by tests that need no whole task manager."""

    STOP_TIMEOUT = 10.0
    BACKOFF = Backoff(1.0, 60.0)  # seconds
    POLL_ADOPTED = 0.5

    def __init__(
        self,
        configuration: Configuration,
        command: Callable[[Configuration], Sequence[str]] = task_manager_command,
    ) -> None:
        self._configuration = configuration
        self._command = command
        self._records = work_directory(configuration, "run")
        self._logs = log_folder(configuration) or work_directory(configuration, "log")
        self._owner = ""
        self._wanted = 0
        self._deaths = 0
        self._not_before = 0.0
        self._started: dict[str, _Started] = {}
        self._spawning: asyncio.Task[None] | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._stopped = False

    async def start(self, resource_manager_address: str) -> None:
        """Takes over what an earlier resource manager at this address started and left running."""
        self._owner = resource_manager_address
        self._configuration = self._configuration.merged(
            {
                **address_options(Role.RESOURCE_MANAGER, resource_manager_address),
                TASKMANAGER_RPC_PORT: 0,
                HEALTH_PORT: 0,  # this process has it
                ENV_LOG_DIR: str(self._logs),
            }
        )
        for path, record in read_records(self._records).items():
            if record.details.get("owner") != self._owner:
                continue
            if not record.is_running():
                path.unlink(missing_ok=True)
                continue
            token = record.details["token"]
            log.info("took over task manager process %d", record.pid)
            adopted = _Started(token, record, path, Path(record.details["log"]), _Phase.STARTING, None)
            self._started[token] = adopted
            adopted.watcher = asyncio.get_running_loop().create_task(self._watch(adopted))

    def request(self, number: int) -> None:
        """Starts what is missing of that number; what is too much registers and is released when it stays idle."""
        self._wanted = number
        self._spawn_missing()

    def registered(self, token: str) -> bool:
        """Counts the process as arrived."""
        started = self._started.get(token) if token else None
        if started is None or started.phase is _Phase.ENDING:
            return False
        started.phase = _Phase.REGISTERED
        self._deaths = 0
        self._cancel_reaper(started)
        return True

    def lost(self, token: str) -> None:
        """A process whose session broke may come back; one that does not is ended."""
        started = self._started.get(token) if token else None
        if started is not None and started.phase is _Phase.REGISTERED:
            patience = self._configuration.get(HEARTBEAT_TIMEOUT)
            self._cancel_reaper(started)
            started.reaper = asyncio.get_running_loop().call_later(patience, self._end, started)

    def release(self, token: str) -> None:
        """Its session has requested the shutdown; signals follow if it does not end."""
        started = self._started.get(token) if token else None
        if started is not None and started.phase is not _Phase.ENDING:
            started.phase = _Phase.ENDING
            self._cancel_reaper(started)
            started.reaper = asyncio.get_running_loop().call_later(self.STOP_TIMEOUT, self._end, started)

    async def stop(self) -> None:
        """Ends every process, the stubborn ones by force."""
        self._stopped = True
        if self._retry is not None:
            self._retry.cancel()
        if self._spawning is not None:
            await self._spawning
        for started in list(self._started.values()):
            self._end(started)
        watchers = [started.watcher for started in self._started.values() if started.watcher]
        await asyncio.gather(*watchers)

    def _cancel_reaper(self, started: _Started) -> None:
        if started.reaper is not None:
            started.reaper.cancel()
            started.reaper = None

    def _spawn_missing(self) -> None:
        if self._stopped or self._spawning is not None or self._retry is not None or self._missing() <= 0:
            return
        loop = asyncio.get_running_loop()
        wait = self._not_before - loop.time()
        if wait > 0:
            self._retry = loop.call_later(wait, self._after_backoff)
        else:
            self._spawning = loop.create_task(self._spawn())

    def _after_backoff(self) -> None:
        self._retry = None
        self._spawn_missing()

    def _missing(self) -> int:
        return self._wanted - sum(1 for started in self._started.values() if started.phase is _Phase.STARTING)

    async def _spawn(self) -> None:
        try:
            while self._missing() > 0 and not self._stopped:
                await self._spawn_one()
        except OSError as error:
            self._note_death(f"cannot start a process: {error}")
        finally:
            self._spawning = None
        self._spawn_missing()

    async def _spawn_one(self) -> None:
        token = new_id()
        await asyncio.to_thread(self._remove_old_logs, {t[:8] for t in self._started})
        log_path = self._logs / f"taskmanager-{token[:8]}.log"
        _, secret = split_options(self._configuration.to_dict())
        with (
            await asyncio.to_thread(open, log_path, "ab", opener=for_user_only) as errors,
            await asyncio.to_thread(open, log_path.with_suffix(".out"), "ab", opener=for_user_only) as output,
            secret_options(secret) as (descriptors, variables),
        ):
            process = await asyncio.create_subprocess_exec(
                *self._command(self._configuration),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                env={**os.environ, PROVIDER_TOKEN: token, **variables},
                pass_fds=descriptors,
                start_new_session=True,
            )
        details = {"owner": self._owner, "token": token, "log": str(log_path)}
        record = ProcessRecord.of("taskmanager", process.pid, details)
        started = _Started(
            token, record, self._records / f"taskmanager-{token[:8]}.json", log_path, _Phase.STARTING, process
        )
        self._started[token] = started
        started.watcher = asyncio.get_running_loop().create_task(self._watch(started))
        record.write(started.record_path)
        log.info("started a task manager as process %d, its log is %s", process.pid, log_path)

    def _remove_old_logs(self, running: set[str]) -> None:
        """Keeps those of the newest `env.log.max` task managers that ended."""
        ended: dict[str, list[Path]] = {}
        for path in sorted(self._logs.glob("taskmanager-*"), key=_modified):
            found = _PROVIDED.match(path.name)
            if found is not None and found.group(1) not in running:
                ended.setdefault(found.group(1), []).append(path)
        for token in list(ended)[: max(0, len(ended) - self._configuration.get(ENV_LOG_MAX))]:
            for path in ended[token]:
                path.unlink(missing_ok=True)

    async def _watch(self, started: _Started) -> None:
        if started.process is not None:
            status = await started.process.wait()
            how = f"exit status {status}" if status >= 0 else f"signal {-status}"
        else:
            while started.record.is_running():  # noqa: ASYNC110 - not our child: there is nothing to wait on
                await asyncio.sleep(self.POLL_ADOPTED)
            how = "unknown exit status"
        self._cancel_reaper(started)
        for left in processes_with(PROVIDER_TOKEN, started.token):
            left.signal_group(signal.SIGKILL)
        started.record_path.unlink(missing_ok=True)
        del self._started[started.token]
        pid = started.record.pid
        if started.phase is _Phase.STARTING and not self._stopped:
            self._note_death(f"process {pid} ended with {how} before it registered: {last_line(started.log_path)}")
        else:
            log.info("task manager process %d ended with %s", pid, how)
        self._spawn_missing()

    def _note_death(self, reason: str) -> None:
        self._deaths += 1
        backoff = self.BACKOFF.after(self._deaths)
        self._not_before = asyncio.get_running_loop().time() + backoff
        level = logging.WARNING if self._deaths < 3 else logging.ERROR
        text = "cannot provide a task manager (%d times in a row, next try in %g s): %s"
        log.log(level, text, self._deaths, backoff, reason)

    def _end(self, started: _Started) -> None:
        started.phase = _Phase.ENDING
        self._cancel_reaper(started)
        started.record.signal_group(signal.SIGTERM)
        loop = asyncio.get_running_loop()
        started.reaper = loop.call_later(self.STOP_TIMEOUT, started.record.signal_group, signal.SIGKILL)


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def last_line(path: Path) -> str:
    """The last line of a log that is not empty, for messages; what stands in for it when there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 8192))
            lines = file.read().decode(errors="replace").split("\n")
    except OSError as error:
        return f"no log ({error.strerror})"
    return next((line.strip() for line in reversed(lines) if line.strip()), "its log is empty")
