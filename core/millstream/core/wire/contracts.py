"""The contracts of all calls and sessions between services, with their Python types.

The protobuf contracts are in `millstream.proto`; services and clients are built from the definitions here.
"""

from __future__ import annotations

from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.graph import Artifact, JobGraph
from millstream.core.messages import dispatcher, inspection, logs, metrics, resource_manager, task_manager
from millstream.core.messages.results import CollectRequest, CollectResponse
from millstream.core.messages.session import Empty
from millstream.core.messages.snapshots import SnapshotRequest, SnapshotResult
from millstream.core.wire.contract import ServiceContract, SessionContract
from millstream.core.wire.wire import Wire
from millstream.proto import dispatcher_pb2, graph_pb2, inspection_pb2, resourcemanager_pb2, status_pb2, taskmanager_pb2

_DISPATCHER = dispatcher_pb2.DESCRIPTOR.services_by_name["Dispatcher"]
_RESOURCE_MANAGER = resourcemanager_pb2.DESCRIPTOR.services_by_name["ResourceManager"]
_JOB_MANAGER = taskmanager_pb2.DESCRIPTOR.services_by_name["JobManager"]
_INSPECTION = inspection_pb2.DESCRIPTOR.services_by_name["Inspection"]
_PROFILING = inspection_pb2.DESCRIPTOR.services_by_name["Profiling"]

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
INSPECTION = ServiceContract(
    _INSPECTION,
    {
        "DumpThreads": (Empty, inspection.ThreadDump),
        "ReadLog": (logs.ReadLogRequest, logs.LogContent),
        "ListLogs": (Empty, logs.LogList),
        "GetMetrics": (Empty, metrics.ProcessMetrics),
    },
)
"""Served by every service."""
PROFILING = ServiceContract(_PROFILING, {"SampleStacks": (inspection.SampleRequest, inspection.StackSamples)})
"""Served by task managers."""

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
    SessionContract(_JOB_MANAGER, "ConnectTaskManager", task_manager.TaskManagerMessage, task_manager.JobManagerCommand)
)

JOB_GRAPH: Wire[JobGraph] = Wire(JobGraph, graph_pb2.JobGraph)
"""Also the format in which one process writes a plan to a file for another."""
JOB_DETAILS: Wire[JobDetails] = Wire(JobDetails, status_pb2.JobDetails)
"""Also the format in which the result of a job is stored."""
