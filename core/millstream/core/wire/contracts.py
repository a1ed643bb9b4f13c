"""Which messages go where: every call, every session and every pipe between two processes, with its Python types.

The contracts themselves are in `millstream.proto`; services and their clients are made from what is here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass

from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.graph import Artifact, JobGraph
from millstream.core.messages import dispatcher, resource_manager, sources, task_manager
from millstream.core.messages.results import CollectRequest, CollectResponse
from millstream.core.messages.session import Empty, SessionSignal
from millstream.core.messages.snapshots import SnapshotRequest, SnapshotResult
from millstream.core.wire.wire import Wire
from millstream.proto import dispatcher_pb2, graph_pb2, resourcemanager_pb2, taskmanager_pb2

Up = TypeVar("Up")
Down = TypeVar("Down")


@dataclass(frozen=True)
class SessionContract(Generic[Up, Down]):
    """A long-lived exchange: who dials says `Up`, who is dialled says `Down`."""

    service: ServiceDescriptor
    method: str
    up_type: Any
    down_type: Any

    @cached_property
    def _descriptor(self) -> MethodDescriptor:
        return self.service.methods_by_name[self.method]

    @cached_property
    def up(self) -> Wire[Up | SessionSignal]:
        """From who dials."""
        return Wire(self.up_type | SessionSignal, GetMessageClass(self._descriptor.input_type))

    @cached_property
    def down(self) -> Wire[Down | SessionSignal]:
        """From who is dialled."""
        return Wire(self.down_type | SessionSignal, GetMessageClass(self._descriptor.output_type))


@dataclass(frozen=True)
class ServiceContract:
    """The calls of a service: for each, what is asked and what is answered. Its sessions are not among them."""

    service: ServiceDescriptor
    calls: Mapping[str, tuple[Any, Any]]


_DISPATCHER = dispatcher_pb2.DESCRIPTOR.services_by_name["Dispatcher"]
_RESOURCE_MANAGER = resourcemanager_pb2.DESCRIPTOR.services_by_name["ResourceManager"]
_JOB_MANAGER = taskmanager_pb2.DESCRIPTOR.services_by_name["JobManager"]
_TASK_MANAGER = taskmanager_pb2.DESCRIPTOR.services_by_name["TaskManager"]

DISPATCHER = ServiceContract(
    _DISPATCHER,
    {
        "SubmitJob": (dispatcher.SubmitJobRequest, dispatcher.SubmitJobResponse),
        "CancelJob": (dispatcher.JobRequest, Empty),
        "GetJob": (dispatcher.JobRequest, JobDetails),
        "ListJobs": (Empty, dispatcher.JobList),
        "WatchJob": (dispatcher.JobRequest, JobDetails),
        "Collect": (CollectRequest, CollectResponse),
        "TriggerSnapshot": (SnapshotRequest, SnapshotResult),
        "HasArtifact": (dispatcher.ArtifactRequest, dispatcher.ArtifactStatus),
        "UploadArtifact": (dispatcher.ArtifactChunk, Artifact),
        "DownloadArtifact": (dispatcher.ArtifactRequest, dispatcher.ArtifactChunk),
    },
)
RESOURCE_MANAGER = ServiceContract(_RESOURCE_MANAGER, {"GetOverview": (Empty, resource_manager.Overview)})
JOB_MANAGER = ServiceContract(_JOB_MANAGER, {})
TASK_MANAGER = ServiceContract(
    _TASK_MANAGER,
    {
        "ReadLog": (task_manager.ReadLogRequest, task_manager.LogContent),
        "ListLogs": (Empty, task_manager.LogList),
    },
)

JOB_MANAGER_AT_DISPATCHER: SessionContract[dispatcher.JobManagerMessage, dispatcher.DispatcherMessage] = (
    SessionContract(_DISPATCHER, "ConnectJobManager", dispatcher.JobManagerMessage, dispatcher.DispatcherMessage)
)
JOB_MANAGER_AT_RESOURCE_MANAGER: SessionContract[
    resource_manager.JobManagerReport, resource_manager.JobManagerNotice
] = SessionContract(
    _RESOURCE_MANAGER, "ConnectJobManager", resource_manager.JobManagerReport, resource_manager.JobManagerNotice
)
TASK_MANAGER_AT_RESOURCE_MANAGER: SessionContract[
    resource_manager.TaskManagerReport, resource_manager.TaskManagerCommand
] = SessionContract(
    _RESOURCE_MANAGER, "ConnectTaskManager", resource_manager.TaskManagerReport, resource_manager.TaskManagerCommand
)
TASK_MANAGER_AT_JOB_MANAGER: SessionContract[task_manager.TaskManagerMessage, task_manager.JobManagerCommand] = (
    SessionContract(
        _JOB_MANAGER, "ConnectTaskManager", task_manager.TaskManagerMessage, task_manager.JobManagerCommand
    )
)

WORKER_COMMAND: Wire[task_manager.WorkerCommand] = Wire(task_manager.WorkerCommand, taskmanager_pb2.WorkerCommand)
WORKER_MESSAGE: Wire[task_manager.WorkerMessage] = Wire(task_manager.WorkerMessage, taskmanager_pb2.WorkerMessage)
ENUMERATORS_COMMAND: Wire[sources.EnumeratorsCommand] = Wire(
    sources.EnumeratorsCommand, taskmanager_pb2.EnumeratorsCommand
)
ENUMERATORS_MESSAGE: Wire[sources.EnumeratorsMessage] = Wire(
    sources.EnumeratorsMessage, taskmanager_pb2.EnumeratorsMessage
)

JOB_GRAPH: Wire[JobGraph] = Wire(JobGraph, graph_pb2.JobGraph)
"""Also the form of a plan that one process leaves in a file for another."""
