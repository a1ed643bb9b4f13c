"""What the dispatcher reports of a job by itself: before a job manager has reported, and when it decides an end."""

from __future__ import annotations

from msgspec.structs import replace

from millstream.core.jobs.details import JobDetails, SubtaskStatus, VertexStatus
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.kept_checkpoint import start_command
from millstream.core.jobs.plan_json import plan_nodes
from millstream.core.jobs.states import ExecutionState, JobStatus

_CREATED, _CANCELED = ExecutionState.CREATED, ExecutionState.CANCELED


def submitted_details(graph: JobGraph, now_ms: int) -> JobDetails:
    """A job that was accepted and waits to be started."""
    return JobDetails(
        graph.job_id,
        graph.name,
        JobStatus.INITIALIZING,
        start_time=now_ms,
        state_times={JobStatus.INITIALIZING: now_ms},
        vertices=tuple(
            VertexStatus(
                v.id,
                v.name,
                v.parallelism,
                v.max_parallelism,
                v.slot_sharing_group,
                tuple(SubtaskStatus(i, _CREATED, state_times={_CREATED: now_ms}) for i in range(v.parallelism)),
            )
            for v in graph.vertices
        ),
        plan=plan_nodes(graph),
        configuration=graph.configuration,
        slots_required=graph.slots_required(),
        artifacts=tuple(artifact.sha256 for artifact in graph.artifacts),
        message="waiting for a job manager",
    )


def ended_details(before: JobDetails, status: JobStatus, reason: str, now_ms: int) -> JobDetails:
    """The same job after an end that no job manager reported."""
    failures = before.failures
    if status is JobStatus.FAILED:
        text = reason + _left_behind(before)
        failures = (TaskFailure(before.job_id, exception=text, traceback=text, timestamp=now_ms), *failures)
    return replace(
        before,
        state=status,
        end_time=now_ms,
        state_times={**before.state_times, status: now_ms},
        vertices=tuple(replace(v, subtasks=tuple(_ended(s, now_ms) for s in v.subtasks)) for v in before.vertices),
        failures=failures,
        message="",
        slots_held=0,
    )


def _ended(subtask: SubtaskStatus, now_ms: int) -> SubtaskStatus:
    if subtask.state.is_terminal:
        return subtask
    times = {**subtask.state_times, _CANCELED: now_ms}
    return replace(subtask, state=_CANCELED, end_time=now_ms, state_times=times)


def _left_behind(details: JobDetails) -> str:
    """What a job whose job manager is gone leaves in storage, and what to do about it."""
    if details.latest_checkpoint:
        return (
            f". The last completed checkpoint of the job that was heard of is {details.latest_checkpoint}: "
            f"`{start_command(details.latest_checkpoint)}` starts the job from there, or from a newer one beside it if "
            "there is one, with --claimMode CLAIM if that job shall delete it in time. Otherwise what is in "
            f"{details.checkpoint_directory}, and unfinished files of sinks (.inprogress), is yours to delete"
        )
    if details.checkpoint_directory:
        return (
            f". No checkpoint of the job was heard of; unless there is one in {details.checkpoint_directory}, which -s "
            "starts the job from, what may be there, and unfinished files of sinks (.inprogress), is yours to delete"
        )
    return ""
