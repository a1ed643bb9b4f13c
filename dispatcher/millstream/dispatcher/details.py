"""What the dispatcher says about a job by itself: before a job manager has reported, and when it decides an end."""

from __future__ import annotations

from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.plan_json import plan_nodes
from millstream.core.jobs.states import ExecutionState, JobStatus
from millstream.proto import status_pb2 as pb


def submitted_details(graph: JobGraph, now_ms: int) -> pb.JobDetails:
    """A job that was accepted and waits to be started."""
    created = ExecutionState.CREATED.value
    return pb.JobDetails(
        job_id=graph.job_id,
        name=graph.name,
        state=JobStatus.INITIALIZING,
        start_time=now_ms,
        state_times={JobStatus.INITIALIZING: now_ms},
        vertices=[
            pb.VertexStatus(
                id=v.id,
                name=v.name,
                parallelism=v.parallelism,
                max_parallelism=v.max_parallelism,
                slot_sharing_group=v.slot_sharing_group,
                subtasks=[
                    pb.Subtask(index=index, state=created, state_times={created: now_ms})
                    for index in range(v.parallelism)
                ],
            )
            for v in graph.vertices
        ],
        plan=plan_nodes(graph),
        configuration=graph.configuration,
        slots_required=graph.slots_required(),
        artifacts=[artifact.sha256 for artifact in graph.artifacts],
        message="waiting for a job manager",
    )


def with_message(before: pb.JobDetails, message: str) -> pb.JobDetails:
    """The same job, with what it waits for now."""
    details = pb.JobDetails()
    details.CopyFrom(before)
    details.message = message
    return details


def ended_details(before: pb.JobDetails, status: JobStatus, reason: str, now_ms: int) -> pb.JobDetails:
    """The same job after an end that no job manager reported."""
    details = pb.JobDetails()
    details.CopyFrom(before)
    details.state = status
    details.end_time = now_ms
    details.state_times[status] = now_ms
    details.message = ""
    details.slots_held = 0
    for vertex in details.vertices:
        for subtask in vertex.subtasks:
            if not ExecutionState(subtask.state).is_terminal:
                subtask.state = ExecutionState.CANCELED
                subtask.end_time = now_ms
                subtask.state_times[ExecutionState.CANCELED] = now_ms
    if status is JobStatus.FAILED:
        reason += _left_behind(before)
        earlier = list(before.failures)
        del details.failures[:]
        details.failures.add(job_id=details.job_id, exception=reason, traceback=reason, timestamp=now_ms)
        details.failures.extend(earlier)
    return details


def _left_behind(details: pb.JobDetails) -> str:
    """What a job whose job manager is gone leaves in storage, and what to do about it."""
    if details.latest_checkpoint:
        return (
            f". The last completed checkpoint of the job that was heard of is {details.latest_checkpoint}: start it "
            "from there with -s, or from a newer one beside it if there is one, with --claimMode CLAIM if that job "
            f"shall delete it in time. Otherwise what is in {details.checkpoint_directory}, and unfinished files of "
            "sinks (.inprogress), is yours to delete"
        )
    if details.checkpoint_directory:
        return (
            f". No checkpoint of the job was heard of; unless there is one in {details.checkpoint_directory}, which -s "
            "starts the job from, what may be there, and unfinished files of sinks (.inprogress), is yours to delete"
        )
    return ""
