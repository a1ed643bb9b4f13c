"""The sources of one job in the job manager: its enumerator process, and the messages between it and the readers.

Owned by the job manager's loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import assert_never

from msgspec.structs import replace

from millstream.core.clock import Clock
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import NO_ALLOCATION, VertexId
from millstream.core.messages.sources import (
    EnumeratorEvent,
    EnumeratorFigures,
    EnumeratorsCommand,
    EnumeratorsMessage,
    EnumeratorsSnapshot,
    ReaderEvent,
    Ready,
    RunningReader,
    TakeoverRefused,
    WatermarkLimit,
    WatermarkReport,
)
from millstream.core.metrics.model import MetricGroup
from millstream.core.processes.background import BackgroundTasks
from millstream.core.processes.job_process import Launcher
from millstream.core.settings.configuration import Configuration
from millstream.jobmanager.failover.topology import Subtask
from millstream.jobmanager.job_checkpoints.job_checkpoints import JobCheckpoints
from millstream.jobmanager.job_master import events as ev
from millstream.jobmanager.job_master.job_master import JobMaster
from millstream.jobmanager.job_metrics import coordinator_groups
from millstream.jobmanager.links import Links
from millstream.jobmanager.sources.alignment import AlignmentGroups
from millstream.jobmanager.sources.enumerator_process import EnumeratorProcess

log = logging.getLogger(__name__)


class JobSources:
    """`tell` passes an event to the JobMaster."""

    def __init__(
        self,
        master: JobMaster,
        checkpoints: JobCheckpoints,
        configuration: Configuration,
        links: Links,
        background: BackgroundTasks,
        clock: Clock,
        launch: Launcher,
        tell: Callable[[ev.Event], None],
    ) -> None:
        self._master = master
        self._checkpoints = checkpoints
        self._configuration = configuration
        self._links = links
        self._background = background
        self._clock = clock
        self._launch = launch
        self._tell = tell
        self._process: EnumeratorProcess | None = None
        self._is_ready = False
        self._figures: dict[VertexId, EnumeratorFigures] = {}
        self._alignment = AlignmentGroups()

    def send(self, command: EnumeratorsCommand) -> bool:
        """Sends a command to the enumerator process; returns false when there is none."""
        if self._process is None:
            return False
        self._process.send(command)
        return True

    def start(
        self,
        graph: JobGraph,
        states: Mapping[VertexId, bytes],
        readers: Mapping[VertexId, tuple[RunningReader, ...]] | None,
    ) -> None:
        """Starts the enumerator process, replacing one that failed; with `readers`, for these running readers."""
        self.stop()
        self._is_ready = False
        self._figures.clear()

        def on_message(message: EnumeratorsMessage) -> None:
            if self._process is process:  # messages of an earlier process are ignored
                self._received(message)

        process = self._process = EnumeratorProcess(
            graph,
            self._configuration,
            self._links.artifact_address,
            on_message,
            lambda text: self._tell(ev.WorkerProgressed(NO_ALLOCATION, text)),
            self._clock,
            states,
            self._launch,
            readers,
        )
        self._background.spawn(process.run())

    def stop(self) -> None:
        """Stops the enumerator process in the background."""
        if self._process is not None:
            self._background.spawn(self._process.stop())
            self._process = None

    async def close(self) -> None:
        """Stops the enumerator process, because the job manager stops."""
        if self._process is not None:
            await self._process.stop()

    def rolled_back(self, subtasks: Collection[Subtask]) -> None:
        """These subtasks are being cancelled for a restart."""
        self._alignment.forget(subtasks)

    def metrics(self, graph: JobGraph, job: Mapping[str, str]) -> list[MetricGroup]:
        """Returns the metrics of the coordinators of the job's sources."""
        groups: list[MetricGroup] = []
        for vertex in graph.vertices:
            if vertex.id in self._figures:
                groups += coordinator_groups(vertex, self._figures[vertex.id], dict(job))
        return groups

    def _received(self, message: EnumeratorsMessage) -> None:
        match message:
            case Ready() if not self._is_ready:
                self._is_ready = True
                self._tell(ev.EnumeratorsReadied())
            case Ready():
                self._checkpoints.sources.confirmed()
            case TakeoverRefused(reason):
                self._tell(ev.TakeoverRefused(reason))
            case TaskFailure():
                self._tell(ev.EnumeratorsFailed(message))
            case EnumeratorsSnapshot():
                self._checkpoints.snapshotted(message)
            case EnumeratorEvent():
                self._to_reader(message)
            case EnumeratorFigures(vertex_id):
                self._figures[vertex_id] = message
            case _:
                assert_never(message)

    def _to_reader(self, event: EnumeratorEvent) -> None:
        if not self._checkpoints.sources.to_reader(event):
            return
        place = self._master.place_of(event.vertex_id, event.subtask)
        if place is not None:
            task_manager, allocation_id, execution = place
            attempt_id = execution.attempt_id
            self._links.command(task_manager, replace(event, allocation_id=allocation_id, attempt_id=attempt_id))

    def is_current(self, event: ReaderEvent) -> bool:
        """Whether the reader that has sent the event still runs."""
        execution = self._master.execution_graph.by_attempt(event.attempt_id)
        current = execution is not None and execution.is_deployed
        return current and execution is not None and execution.place == Subtask(event.vertex_id, event.subtask)

    def align(self, report: WatermarkReport) -> None:
        """Responds to a reader's watermark report with its limit; ignores readers of earlier attempts."""
        place = self._master.place_of_attempt(report.attempt_id)
        if place is not None:
            task_manager, allocation_id, execution = place
            limit = self._alignment.reported(execution.place, report)
            self._links.command(task_manager, WatermarkLimit(allocation_id, report.attempt_id, limit))
