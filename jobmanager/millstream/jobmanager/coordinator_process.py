"""A job's coordinator, as the job manager sees it: started in the job's environment, watched, ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from millstream.core.child import Child, ChildThread
from millstream.core.clock import Clock
from millstream.core.configuration import Configuration
from millstream.core.errors import MillstreamError
from millstream.core.graph import JobGraph
from millstream.core.job_process import start_job_process
from millstream.proto import status_pb2
from millstream.proto import taskmanager_pb2 as pb

_STOP_GRACE = 2.0


class CoordinatorProcess:
    """Owned by the job manager's loop. `run` lives as long as the process does."""

    def __init__(
        self,
        graph: JobGraph,
        configuration: Configuration,
        artifact_address: str,
        on_message: Callable[[pb.CoordinatorMessage], None],
        on_progress: Callable[[str], None],
        clock: Clock,
    ) -> None:
        self._graph = graph
        self._configuration = configuration
        self._artifact_address = artifact_address
        self._on_message = on_message
        self._on_progress = on_progress
        self._clock = clock
        self._child: Child | None = None
        self._early: list[bytes] = []
        self._stopping = False

    async def run(self) -> None:
        """From the environment to the process's end; an end that was not asked for fails the job."""
        try:
            child = self._child = await self._launch()
        except (MillstreamError, OSError) as error:
            if not self._stopping:
                self._fail(str(error))
            return
        if self._stopping:  # asked to end while the environment was being made
            child.kill()
            await child.wait()
            return
        start = pb.StartCoordinator(
            job_id=self._graph.job_id,
            configuration=self._graph.configuration,
            sources=[
                pb.SourceToCoordinate(vertex_id=v.id, name=v.name, parallelism=v.parallelism, source=v.source)
                for v in self._graph.vertices
                if v.source
            ],
        )
        child.send(pb.CoordinatorCommand(start=start).SerializeToString())
        for message in self._early:
            child.send(message)
        try:
            await child.receive(lambda raw: self._on_message(pb.CoordinatorMessage.FromString(raw)))
            reason = await child.wait()
        except asyncio.CancelledError:
            child.kill()
            await child.wait()
            raise
        finally:
            child.kill()  # what the process itself started and left behind
        if not self._stopping:
            self._fail(f"the coordinator {reason}")

    def send(self, command: pb.CoordinatorCommand) -> None:
        """Passes an event to the enumerators."""
        raw = command.SerializeToString()
        if self._child is None:
            self._early.append(raw)
        else:
            self._child.send(raw)

    async def stop(self) -> None:
        """Ends the process: in order while it can, else by force. Returns when it is gone."""
        self._stopping = True
        if self._child is None:
            return
        command = pb.CoordinatorCommand()
        command.stop.SetInParent()
        self._child.send(command.SerializeToString())
        try:
            await asyncio.wait_for(self._child.wait(), _STOP_GRACE)
        except TimeoutError:
            self._child.kill()
            await self._child.wait()

    def _fail(self, reason: str) -> None:
        failure = status_pb2.TaskFailure(
            job_id=self._graph.job_id,
            task_name="coordinator",
            exception=reason,
            traceback=reason,
            timestamp=self._clock.now_ms(),
        )
        self._on_message(pb.CoordinatorMessage(failure=failure))

    async def _launch(self) -> Child:
        if self._configuration.boolean("execution.local.in-process"):
            from millstream.jobmanager.coordinator import run_coordinator

            return await ChildThread.start(run_coordinator, "coordinator")
        return await start_job_process(
            "millstream.jobmanager.coordinator",
            [],
            self._graph.artifacts,
            self._artifact_address,
            self._graph.python_path,
            self._configuration,
            self._on_progress,
        )
