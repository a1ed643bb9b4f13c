"""Starts a job's enumerator process in the job's environment, supervises and stops it.

As a slot worker does, the process gives signs of life, whatever its enumerators do. One that is silent for
`heartbeat.timeout` is killed, and the job restarts: no checkpoint completes without it. One that uses processor time
meanwhile is waited for, since native code may hold its interpreter lock, and so is one that a debugger holds.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping

from millstream.core.clock import Clock
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import VertexId
from millstream.core.linux.processes import is_traced, processor_ticks
from millstream.core.messages.sources import (
    EnumeratorsCommand,
    EnumeratorsMessage,
    RunningReader,
    SourceToEnumerate,
    StartEnumerators,
    Stop,
)
from millstream.core.processes.child import Child, ChildProcess, ChildThread
from millstream.core.processes.job_process import JobProcess, Launcher, start_job_process
from millstream.core.processes.supervised_child import SupervisedChild
from millstream.core.services.liveness import Liveness
from millstream.core.services.silence import reason_of_silence, until_silent
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.execution import EXECUTION_LOCAL_IN_PROCESS, EXECUTION_LOCAL_LOG_FILE
from millstream.core.wire.pipes import ENUMERATORS_COMMAND, ENUMERATORS_MESSAGE

_LOGGING = ("logging.", "env.log.", EXECUTION_LOCAL_LOG_FILE)
_STOP_GRACE = 2.0


class EnumeratorProcess:
    """Owned by the job manager's loop. `run` returns when the process has ended.

    `states` are the enumerators' states to restore, and `readers` the readers that are already running.
    """

    def __init__(
        self,
        graph: JobGraph,
        configuration: Configuration,
        artifact_address: str,
        on_message: Callable[[EnumeratorsMessage], None],
        on_progress: Callable[[str], None],
        clock: Clock,
        states: Mapping[VertexId, bytes] | None = None,
        launch: Launcher = start_job_process,
        readers: Mapping[VertexId, tuple[RunningReader, ...]] | None = None,
    ) -> None:
        self._graph = graph
        self._configuration = configuration
        self._artifact_address = artifact_address
        self._on_message = on_message
        self._on_progress = on_progress
        self._clock = clock
        self._states = states or {}
        self._readers = readers or {}
        self._launcher = launch
        self._child = SupervisedChild(self._launch, ENUMERATORS_COMMAND.to_bytes(Stop()), _STOP_GRACE)
        self._watch: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Builds the environment and runs the process until it ends; an unexpected end fails the job."""
        sources = tuple(
            SourceToEnumerate(
                v.id, v.name, v.parallelism, v.source, self._states.get(v.id, b""), self._readers.get(v.id, ())
            )
            for v in self._graph.vertices
            if v.source
        )
        start = StartEnumerators(self._graph.job_id, sources, self._graph.configuration)
        try:
            reason = await self._child.run(ENUMERATORS_COMMAND.to_bytes(start), self._received)
        finally:
            if self._watch is not None:
                self._watch.cancel()
        if not self._child.is_stopping:
            self._fail(f"split enumerators: {reason}")

    def send(self, command: EnumeratorsCommand) -> None:
        """Sends a command to the enumerators."""
        self._child.send(ENUMERATORS_COMMAND.to_bytes(command))

    async def stop(self) -> None:
        """Stops the process. Returns when it has ended."""
        await self._child.stop()

    def _received(self, raw: bytes) -> None:
        if self._watch is None and (process := self._child.process) is not None:  # it has started
            self._watch = asyncio.create_task(self._watch_life(process))
        self._on_message(ENUMERATORS_MESSAGE.from_bytes(raw))

    async def _watch_life(self, process: ChildProcess) -> None:
        loop = asyncio.get_running_loop()
        liveness = Liveness(self._configuration, loop.time())
        used = processor_ticks(process.pid)

        def heard() -> None:
            nonlocal used
            liveness.heard(loop.time())
            used = processor_ticks(process.pid)

        process.on_sign_of_life = heard

        async def responds() -> bool:
            nonlocal used
            before, used = used, processor_ticks(process.pid)
            return used > before or is_traced(process.pid)

        await until_silent(f"enumerator process {process.pid}", liveness, process.probe, responds)
        self._child.kill(reason_of_silence(process.pid, liveness.timeout, "its threads do not run"))

    def _fail(self, reason: str) -> None:
        failure = TaskFailure(
            job_id=self._graph.job_id,
            task_name="split enumerators",
            exception=reason,
            traceback=reason,
            timestamp=self._clock.now_ms(),
            final=self._child.is_impossible,
        )
        self._on_message(failure)

    def _logging_options(self) -> dict[str, str]:
        """Returns this process's logging options; none is a secret, so they may be passed on a command line."""
        options = self._configuration.to_dict()
        return {key: value for key, value in options.items() if key.startswith(_LOGGING)}

    async def _launch(self) -> Child:
        if self._configuration.get(EXECUTION_LOCAL_IN_PROCESS):
            from millstream.jobmanager.sources.enumerators import run_enumerators

            return await ChildThread.start(run_enumerators, "enumerators")
        arguments = ["--job", self._graph.job_id, f"--job-name={self._graph.name}"]
        arguments += ["--logging", json.dumps(self._logging_options())]
        process = JobProcess(
            "millstream.jobmanager.sources.enumerators",
            arguments,
            self._graph.artifacts,
            self._artifact_address,
            self._graph.python_path,
        )
        return await self._launcher(process, self._configuration, self._on_progress)
