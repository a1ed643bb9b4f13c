"""A slot worker whose loop a test turns: deploy tasks, feed their channels, step them, look at what comes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from msgspec.structs import replace

from millstream.core.clock import Clock
from millstream.core.jobs.ids import ChannelId
from millstream.core.messages.task_manager import StartWorker, WorkerMessage
from millstream.taskmanager.worker.checkpointing.storages import Storages
from millstream.taskmanager.worker.network.inputs import LocalInputChannel
from millstream.taskmanager.worker.slot_worker import Mail, SlotWorker
from millstream.taskmanager.worker.tasks.task import Task

_LONGEST_SLEEP = 0.001  # seconds, of a turn in which there is nothing to do


class DrivenWorker(SlotWorker):
    """Has no thread of its own: `turn`, `step` and `take_mails` are called by the test."""

    def __init__(self, start: StartWorker, host: str, clock: Clock, send: Callable[[WorkerMessage], None]) -> None:
        super().__init__(start, host, clock, send)
        self._metrics_interval = _LONGEST_SLEEP

    @property
    def tasks(self) -> Mapping[str, Task]:
        """Those that are there, by attempt."""
        return self._tasks

    @property
    def address(self) -> str:
        """Where the worker is reached, once it listens."""
        return self._data_plane.address

    @property
    def peers(self) -> list[str]:
        """The addresses of the workers that it has a stream to, or waits for."""
        return self._data_plane.peers

    @property
    def storages(self) -> Storages:
        """Where its tasks write their snapshots."""
        return self._checkpoints.storages

    @property
    def writers(self) -> ThreadPoolExecutor:
        """The threads that write snapshots."""
        return self._writers

    def listen(self) -> None:
        """Starts the exchange with other workers."""
        self._data_plane.start()

    def hang_up(self) -> None:
        """Ends it."""
        self._data_plane.stop()

    def channel(self, number: int) -> LocalInputChannel:
        """A channel between two tasks of this worker; either end may be missing."""
        return self._channels.local(ChannelId(number), "")

    def step(self, task: Task) -> bool:
        """Runs one step of a task; returns whether it did any work."""
        return self._step(task)

    def take_mails(self, wait: float | None = None) -> None:
        """Those that have come, or that come in so many seconds; without the turn that would follow."""
        self._take_mails(wait)

    def post(self, mail: Mail) -> None:
        """Puts a mail, and takes it."""
        self.mailbox.put(mail)
        self._take_mails(None)

    def write_with(self, submit: Callable[[Callable[[], Any]], Any]) -> None:
        """Hands what is to be written from now on to the test, in place of threads."""
        self._checkpoints = replace(self._checkpoints, submit=submit)
