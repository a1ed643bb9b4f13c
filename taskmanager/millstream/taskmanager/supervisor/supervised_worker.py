"""One slot worker, as its supervisor sees it: the environment is made, the worker started, watched and ended.

A worker that is ready gives signs of life: its control thread returns the probes of the supervisor, whatever its
functions do. One that is silent for `heartbeat.timeout` is killed: it makes no progress, and nothing else would notice.
One whose native code holds the interpreter lock, or that a debugger holds, is waited for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from millstream.core.jobs.failure_kinds import WorkerEnd
from millstream.core.jobs.ids import new_id
from millstream.core.linux.processes import is_traced
from millstream.core.messages.deployment import CancelTasks, DeployTasks
from millstream.core.messages.inspection import InspectWorker, PlacedTask, SampleRequest, WorkerInspected
from millstream.core.messages.results import CollectResponse
from millstream.core.messages.sources import ReaderEvent, Stop, WatermarkReport
from millstream.core.messages.task_manager import (
    FromTasks,
    SlotMetrics,
    StartWorker,
    TaskUpdate,
    WorkerCommand,
    WorkerMessage,
    WorkerReady,
)
from millstream.core.processes.child import Child, ChildProcess, ChildThread
from millstream.core.processes.control_pipe import ControlPipe
from millstream.core.processes.job_process import JobProcess, Launcher, start_job_process
from millstream.core.processes.memory import amount
from millstream.core.processes.supervised_child import SupervisedChild
from millstream.core.processes.titles import ROOM, worker_title
from millstream.core.services.liveness import Liveness
from millstream.core.services.silence import accepts_connections, reason_of_silence, until_silent
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.scheduling import TASK_CANCELLATION_TIMEOUT, WORKER_START_TIMEOUT
from millstream.core.wire.pipes import WORKER_COMMAND, WORKER_MESSAGE
from millstream.core.wire.wire import WireError
from millstream.taskmanager.memory_limit import OPTION, VARIABLES, limit_of
from millstream.taskmanager.supervisor.slot_tasks import SlotTasks
from millstream.taskmanager.supervisor.worker_places import WorkerPlaces

log = logging.getLogger(__name__)
_STOP_GRACE = 5.0
_DEAF = "its threads do not run, and it accepts no connection"
_SILENT = "it does not respond: native code that it runs holds the interpreter lock, or the machine is overloaded"


WorkerOnThread = Callable[[ControlPipe, str], None]
"""Runs a slot worker with this end of its pipe and its host, on a thread of this process."""


class SupervisedWorker:
    """Owned by the supervisor's loop. `run` lives as long as the worker does."""

    def __init__(
        self,
        start: StartWorker,
        host: str,
        configuration: Configuration,
        on_message: Callable[[WorkerReady | FromTasks], None],
        on_progress: Callable[[str], None],
        outputs: Callable[[], tuple[int, int] | None] = lambda: None,
        launch: Launcher = start_job_process,
        on_thread: WorkerOnThread | None = None,
    ) -> None:
        self.allocation_id = start.allocation_id
        self._start = start
        self._host = host
        self._configuration = configuration
        self._on_message = on_message
        self._on_progress = on_progress
        self._outputs = outputs
        self._launcher = launch
        self._on_thread = on_thread
        self._was_put_down = False
        self._was_silent = False
        self.tasks = SlotTasks()
        """The state of its tasks; the caller of `send` and `deploy` passes it the commands."""
        self.measured: SlotMetrics | None = None
        """The latest metrics of the worker and its tasks."""
        self._running: set[str] = set()
        self.places = WorkerPlaces(self._running)
        self._ready = asyncio.Event()
        self._inspections: dict[str, asyncio.Future[WorkerInspected]] = {}
        self._watch: asyncio.Task[None] | None = None
        self._child = SupervisedChild(self._launch, WORKER_COMMAND.to_bytes(Stop()), _STOP_GRACE)

    @property
    def job_name(self) -> str:
        """The name of the job."""
        return self._start.job_name

    @property
    def end(self) -> WorkerEnd:
        """Why a worker has ended. One that ended by itself is taken for crashed by its tasks."""
        if self._was_put_down:
            return WorkerEnd.PUT_DOWN
        if self._child.is_impossible:
            return WorkerEnd.IMPOSSIBLE
        return WorkerEnd.CRASHED if self._child.crashed else WorkerEnd.LOST

    async def run(self) -> str:
        """Makes the environment and runs the worker to its end; returns why it ended."""
        start = WORKER_COMMAND.to_bytes(self._start)
        try:
            return f"slot worker: {await self._child.run(start, self._received)}{self._about_memory()}"
        finally:
            if self._watch is not None:
                self._watch.cancel()

    def _about_memory(self) -> str:
        """Native code that gets no memory may crash without a message."""
        limit = limit_of(self._configuration)
        is_known = self._child.is_stopping or self._child.is_impossible or self._was_put_down or self._was_silent
        if not limit or is_known:
            return ""
        return f"; the tasks of its slot may take {amount(limit)} ({OPTION})"

    def send(self, command: WorkerCommand) -> None:
        """Sends a command to the worker."""
        self._child.send(WORKER_COMMAND.to_bytes(command))

    async def inspect(self, sample: SampleRequest | None, timeout: float) -> WorkerInspected:
        """What the worker reports about itself, or why it does not within the timeout."""
        request_id = new_id()
        inspected: asyncio.Future[WorkerInspected] = asyncio.get_running_loop().create_future()
        self._inspections[request_id] = inspected
        try:
            if not self._ready.is_set():
                return WorkerInspected(request_id, problem="it is being started")
            self.send(InspectWorker(request_id, sample))
            async with asyncio.timeout(timeout):
                return await inspected
        except TimeoutError:
            return WorkerInspected(request_id, problem=_SILENT)
        finally:
            del self._inspections[request_id]

    @property
    def is_ready(self) -> bool:
        """Whether it has reported that it listens."""
        return self._ready.is_set()

    @property
    def pid(self) -> int | None:
        """Of its process; None before it is started, and of a thread."""
        process = self._child.process
        return process.pid if process is not None else None

    def deploy(self, deploy: DeployTasks) -> None:
        """Sends tasks to the worker, and remembers them."""
        self._running.update(task.attempt_id for task in deploy.tasks)
        self.send(deploy)

    async def cancel(self, cancel: CancelTasks) -> None:
        """Cancels tasks, and kills the worker when they do not end in time."""
        self.send(cancel)
        timeout = self._configuration.get(TASK_CANCELLATION_TIMEOUT)
        await asyncio.sleep(timeout)
        stuck = self._running & set(cancel.attempt_ids)
        if stuck:
            self._was_put_down = True
            self.kill(f"{len(stuck)} tasks did not end within task.cancellation.timeout ({timeout:g} s)")

    async def stop(self) -> None:
        """Stops the worker; kills it when it does not stop in time."""
        await self._child.stop()

    def kill(self, reason: str) -> None:
        """Kills the worker at once."""
        log.warning("killing the slot worker of allocation %s: %s", self.allocation_id, reason)
        self._child.kill(reason)

    def _received(self, raw: bytes) -> None:
        message = WORKER_MESSAGE.from_bytes(raw)
        if isinstance(message, WorkerInspected):
            inspected = self._inspections.get(message.request_id)
            if inspected is not None and not inspected.done():
                inspected.set_result(message)
            return
        self._check_own(message)
        if isinstance(message, SlotMetrics):
            self.measured = message
            return
        self.places.received(message)
        if isinstance(message, PlacedTask):
            return
        self.tasks.received(message)
        match message:
            case WorkerReady():
                self._ready.set()
            case TaskUpdate(attempt_id=attempt_id, state=state) if state.is_terminal:
                self._running.discard(attempt_id)
        self._on_message(message)

    def _check_own(self, message: WorkerMessage) -> None:
        """Raises WireError for a message about another slot or job: the process runs code of users."""
        match message:
            case ReaderEvent(job_id) | WatermarkReport(job_id):
                is_own = job_id == self._start.job_id
            case CollectResponse():
                is_own = True  # the response to a request
            case _:
                is_own = message.allocation_id == self.allocation_id
        if not is_own:
            raise WireError(f"it sent a {type(message).__name__} of another slot or job")

    async def _watch_process(self) -> None:
        timeout = self._configuration.get(WORKER_START_TIMEOUT)
        try:
            await asyncio.wait_for(self._ready.wait(), timeout)
        except TimeoutError:
            self.kill(f"it was not ready within worker.start.timeout ({timeout:g} s)")
            return
        if (process := self._child.process) is not None:
            await self._watch_life(process)

    async def _watch_life(self, process: ChildProcess) -> None:
        loop = asyncio.get_running_loop()
        liveness = Liveness(self._configuration, loop.time())
        process.on_sign_of_life = lambda: liveness.heard(loop.time())

        async def responds() -> bool:
            address = self.tasks.data_address
            return is_traced(process.pid) or await accepts_connections(address, self._configuration, liveness.timeout)

        await until_silent(f"slot worker {process.pid}", liveness, process.probe, responds)
        self._was_silent = True
        self.kill(reason_of_silence(process.pid, liveness.timeout, _DEAF))

    async def _launch(self) -> Child:
        child = await self._start_child()
        self._watch = asyncio.create_task(self._watch_process())
        return child

    async def _start_child(self) -> Child:
        on_thread = self._on_thread
        if on_thread is not None:
            return await ChildThread.start(lambda pipe: on_thread(pipe, self._host), "slot worker")
        process = JobProcess(
            "millstream.taskmanager.worker.main",
            ["--host", self._host, "--title", worker_title(self._start, ()).ljust(ROOM)],
            self._start.artifacts,
            self._start.artifact_address,
            self._start.python_path,
            VARIABLES if limit_of(self._configuration) else None,
        )
        return await self._launcher(process, self._configuration, self._on_progress, self._outputs)
