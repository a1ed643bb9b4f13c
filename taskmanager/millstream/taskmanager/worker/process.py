"""The process of a slot worker, started by `millstream.taskmanager.worker.main`.

The main thread runs the loop, so that a user function which does not return can be interrupted by a signal when its
task is cancelled. The control thread reads the supervisor's commands; when the supervisor is gone, it ends the process.
In local mode for debuggers the same code runs on a thread, without signals.
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import queue
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import FrameType

from millstream.core.clock import SystemClock
from millstream.core.environments.data_files import ORIGIN
from millstream.core.inspection.outside import allow_dumps_from_outside
from millstream.core.linux.threads import allow_tracing_by_parent
from millstream.core.logs.log_files import bound_output
from millstream.core.logs.logs import set_up_logging
from millstream.core.logs.named_prints import name_prints
from millstream.core.logs.origins import Origin, threads_are_their_starters
from millstream.core.messages.deployment import CancelTasks, DeployTasks
from millstream.core.messages.inspection import InspectWorker
from millstream.core.messages.sources import Stop
from millstream.core.messages.task_manager import FromWorker, StartWorker, WorkerCommand
from millstream.core.processes.breakpoints import debug_on_terminal
from millstream.core.processes.control_pipe import ControlPipe, end_with_parent
from millstream.core.processes.open_files import allow_open_files
from millstream.core.processes.titles import set_title, worker_title
from millstream.core.records import pandas_imports
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.scheduling import TASK_CANCELLATION_INTERVAL
from millstream.core.settings.options.services import TASKMANAGER_PRINTS_NAME_TASK
from millstream.core.wire.pipes import WORKER_COMMAND, WORKER_MESSAGE
from millstream.taskmanager.memory_limit import limit_of
from millstream.taskmanager.worker.inspector import WorkerInspector
from millstream.taskmanager.worker.interruption import TaskInterrupted
from millstream.taskmanager.worker.network.data_plane import DataPlane
from millstream.taskmanager.worker.slot_worker import SlotWorker

SWITCH_INTERVAL = 0.001  # seconds; Python's 5 ms let the network thread wait too long for the interpreter lock


_SHARED = frozenset(
    call.__code__ for call in (ControlPipe.send, DataPlane.send, DataPlane.connect, ThreadPoolExecutor.submit)
)


def is_shared(frame: FrameType | None) -> bool:
    """Whether the thread executes code that is shared by all tasks of the worker and must not be interrupted.

    Half of a message in the pipe would corrupt the stream of messages to the supervisor. The interrupt is repeated
    after the interval.
    """
    while frame is not None:
        if frame.f_code in _SHARED:
            return True
        frame = frame.f_back
    return False


class Interrupter:
    """Interrupts the main thread while it is inside a task that is being cancelled."""

    def __init__(self, worker: SlotWorker, interval: float) -> None:
        self._worker = worker
        self._interval = interval
        signal.signal(signal.SIGUSR1, self._raise)

    def cancel(self, attempt_ids: frozenset[str]) -> None:
        """Interrupts these tasks repeatedly until they return. Called on other threads."""
        timer = threading.Timer(self._interval, self._check, (attempt_ids,))
        timer.daemon = True
        timer.start()

    def _check(self, attempt_ids: frozenset[str]) -> None:
        current = self._worker.current
        if current is not None and current.attempt_id in attempt_ids:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
            self.cancel(attempt_ids)

    def _raise(self, _number: int, frame: FrameType | None) -> None:
        current = self._worker.current
        if current is not None and current.attempt_id in self._worker.cancelling and not is_shared(frame):
            raise TaskInterrupted


def run_worker(pipe: ControlPipe, host: str, on_end: Callable[[], None] | None = None) -> None:
    """Waits for the start command, then runs the loop until a stop command, or until the supervisor is gone.

    `on_end` replaces the orderly stop when the supervisor is gone; a process passes its own end here.
    """
    commands: queue.SimpleQueue[WorkerCommand] = queue.SimpleQueue()
    pipe.start(lambda raw: commands.put(WORKER_COMMAND.from_bytes(raw)), on_end or (lambda: commands.put(Stop())))
    start = commands.get()
    if not isinstance(start, StartWorker):
        return
    configuration = Configuration(start.configuration)
    in_process = on_end is None
    ORIGIN.set(start.artifact_address, configuration)
    workers: list[SlotWorker] = []
    if not in_process:
        bound_output(configuration)
        set_up_logging("worker", configuration, lambda: where(start, workers))
        threads_are_their_starters()
        if configuration.get(TASKMANAGER_PRINTS_NAME_TASK):
            name_prints(configuration)
        logging.captureWarnings(True)  # otherwise warnings have no time and no task

    def send(message: FromWorker) -> None:
        pipe.send(WORKER_MESSAGE.to_bytes(message))

    worker = SlotWorker(start, host, SystemClock(), send)
    workers.append(worker)
    tasks = _Titles(start) if not in_process else None
    interval = configuration.get(TASK_CANCELLATION_INTERVAL)
    interrupter = None if in_process else Interrupter(worker, interval)
    forwarding = (commands, worker, interrupter, WorkerInspector(worker, send), tasks)
    threading.Thread(target=_forward, args=forwarding, name="commands", daemon=True).start()
    worker.run(0 if in_process else limit_of(configuration))


class _Titles:
    """The process title that `ps` shows: the job, and the tasks that were deployed last. Owned by one thread."""

    def __init__(self, start: StartWorker) -> None:
        self._start = start
        self._tasks: dict[tuple[str, int], str] = {}
        self._show()

    def deployed(self, command: DeployTasks) -> None:
        """Adds deployed tasks, or new attempts of them."""
        self._tasks.update({(task.vertex_id, task.subtask): task.task_name for task in command.tasks})
        self._show()

    def _show(self) -> None:
        set_title(worker_title(self._start, self._tasks.values()), "millstream.taskmanager.worker.main")


def where(start: StartWorker, workers: Sequence[SlotWorker]) -> Origin:
    """The task or job that the calling thread works for, for log lines and printed output.

    A thread that works for a single task sets its own origin.
    """
    if workers and threading.current_thread() is threading.main_thread():
        return workers[0].working_on
    return Origin(start.job_id, start.job_name)


def _forward(
    commands: queue.SimpleQueue[WorkerCommand],
    worker: SlotWorker,
    interrupter: Interrupter | None,
    inspector: WorkerInspector,
    titles: _Titles | None,
) -> None:
    while True:
        command = commands.get()
        if isinstance(command, InspectWorker):
            inspector.look(command)
            continue
        if isinstance(command, DeployTasks) and titles is not None:
            titles.deployed(command)
        if isinstance(command, CancelTasks):
            worker.cancelling.update(command.attempt_ids)
            if interrupter is not None:
                interrupter.cancel(frozenset(command.attempt_ids))
        worker.mailbox.put(command)
        if isinstance(command, Stop):
            return


def run_process() -> None:
    """Runs the worker in this process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--control-fd", type=int, required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--title", help="The process title that `ps` shows until the worker has started.")
    arguments = parser.parse_args()
    sys.setswitchinterval(SWITCH_INTERVAL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable(all_threads=False)  # after a crash in native code, the log shows the Python frames
    allow_dumps_from_outside()
    allow_tracing_by_parent()
    allow_open_files()
    debug_on_terminal()
    pandas_imports.only_when_used()
    run_worker(ControlPipe(socket.socket(fileno=arguments.control_fd)), arguments.host, end_with_parent)
