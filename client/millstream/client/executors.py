"""Runs job graphs: on a cluster, or on one embedded in this process."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

import grpc
from msgspec.structs import replace

from millstream.client.dispatcher_link import DispatcherLink
from millstream.client.embedded import EmbeddedCluster
from millstream.client.job_client import ClusterJobClient
from millstream.client.job_folder import with_job_folder
from millstream.client.job_story import JobStory
from millstream.client.loop_thread import LoopThread
from millstream.client.quiet_services import QUIET
from millstream.core.environments.artifacts import ArtifactError, upload_artifact
from millstream.core.errors import NO_CLUSTER, MillstreamError, SubmissionError, UnreachableError
from millstream.core.jobs.graph import ArtifactKind, JobGraph
from millstream.core.jobs.ids import JobId
from millstream.core.messages.dispatcher import JobRequest, SubmitJobRequest
from millstream.core.processes.breakpoints import hand_down_terminal
from millstream.core.services.leader_lookup import Role, address_options
from millstream.core.services.rpc import explain, too_large
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.execution import EXECUTION_ATTACHED, EXECUTION_LOCAL_LOG_FILE, EXECUTION_TARGET
from millstream.core.settings.options.scheduling import TASKMANAGER_NUMBER_OF_TASK_SLOTS
from millstream.core.settings.options.services import HA_TYPE, LOGGING_LEVEL, LOGGING_STDERR_LEVEL
from millstream.core.settings.variables import JOB_ID, SUBMITTED_FILE
from millstream.core.store.high_availability import open_leaders
from millstream.core.wire.contracts import JOB_GRAPH
from millstream.datastream.execution.executor import Executor, JobClient

_REPEAT_TIMEOUT = 5.0
_TRY_AGAIN_AFTER = 0.2
_DETACHED = (
    "It runs detached: see it with millstream list, why it restarts or fails with millstream exceptions {0}, what "
    "its tasks log with millstream logs {0}, and stop it with millstream cancel {0}"
)


def make_executor(configuration: Configuration) -> Executor:
    """The executor for `execution.target`."""
    if configuration.get(EXECUTION_TARGET) == "remote":
        return RemoteExecutor(configuration)
    return LocalExecutor(configuration)


class RemoteExecutor:
    """Submits to the cluster's dispatcher: the one that leads, or else the one at `dispatcher.rpc.address`."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def submit(self, graph: JobGraph, artifact_paths: dict[str, str] | None = None) -> JobClient:
        """Uploads what the cluster does not have, then submits."""
        QUIET.begin(self._configuration)
        loop = LoopThread("millstream client")
        _record(graph.job_id)

        def release() -> None:
            loop.close()
            QUIET.end()

        try:
            with with_job_folder(graph, artifact_paths or {}, self._configuration) as (whole, paths):
                client = _submit(loop, whole, paths, self._configuration, release, JobStory(everything=True))
        except BaseException:
            release()
            raise
        finally:
            _remove_data(graph, artifact_paths or {})
        print(f"Job has been submitted with JobID {graph.job_id}", flush=True)
        if not os.environ.get(SUBMITTED_FILE) and not self._configuration.get(EXECUTION_ATTACHED):
            print(_DETACHED.format(graph.job_id), file=sys.stderr)
        return client


def _record(job_id: str) -> None:
    """Reports a job that is about to be submitted to the program's parent: after it, there may be no time for that."""
    record = os.environ.get(SUBMITTED_FILE)
    if record:
        with Path(record).open("a") as file:
            file.write(f"{job_id}\n")


class LocalExecutor:
    """Starts an embedded cluster with as many slots as the job needs, and ends it with the job."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def submit(self, graph: JobGraph, artifact_paths: dict[str, str] | None = None) -> JobClient:
        """Runs the job here."""
        slots = max(graph.slots_required(), self._configuration.get(TASKMANAGER_NUMBER_OF_TASK_SLOTS))
        configuration = self._configuration.merged(_quiet_options(self._configuration))
        quiet = configuration.get(LOGGING_STDERR_LEVEL) == "ERROR"
        if quiet:
            QUIET.begin(configuration)
        hand_down_terminal()
        loop = LoopThread("millstream")
        cluster = EmbeddedCluster(configuration, slots)

        def release() -> None:
            try:
                loop.call(cluster.stop())
            finally:
                loop.close()
                _remove_data(graph, artifact_paths or {})
                if quiet:
                    QUIET.end()

        try:
            address = loop.call(cluster.start())
            here = tuple(dict.fromkeys([*graph.python_path, *_import_path(graph)]))
            installed = tuple(a for a in graph.artifacts if a.kind is not ArtifactKind.DATA)  # that is read where it is
            local = replace(graph, python_path=here, artifacts=installed)
            story = JobStory(everything=False)
            alone: dict[str, str] = {HA_TYPE: "none", **address_options(Role.DISPATCHER, address)}
            found = cluster.configuration.merged(alone)
            return _submit(loop, local, artifact_paths or {}, found, release, story)
        except BaseException:
            release()
            raise


def _import_path(graph: JobGraph) -> list[str]:
    """Where this program imports from, for its functions.

    A job that installs packages finds those of this interpreter behind its own, in its environment.
    """
    here = list(map(os.path.abspath, sys.path))
    if all(artifact.kind not in (ArtifactKind.WHEEL, ArtifactKind.REQUIREMENTS) for artifact in graph.artifacts):
        return here
    import site

    installed = {*site.getsitepackages(), site.getusersitepackages()}
    return [folder for folder in here if folder not in installed]


def _remove_data(graph: JobGraph, paths: dict[str, str]) -> None:
    for artifact in graph.artifacts:
        if artifact.kind is ArtifactKind.DATA and artifact.sha256 in paths:
            Path(paths[artifact.sha256]).unlink(missing_ok=True)


def _quiet_options(configuration: Configuration) -> dict[str, str]:
    """What keeps the services and workers of an embedded cluster out of the program's output."""
    file = configuration.get(EXECUTION_LOCAL_LOG_FILE)
    options: dict[str, str] = {EXECUTION_LOCAL_LOG_FILE: os.path.abspath(file)} if file else {}
    if configuration.is_set(LOGGING_LEVEL) and not file:
        return options
    if not file:
        options[LOGGING_LEVEL] = "WARNING"
    if not configuration.is_set(LOGGING_STDERR_LEVEL):
        options[LOGGING_STDERR_LEVEL] = "ERROR"
    return options


def _submit(
    loop: LoopThread,
    graph: JobGraph,
    paths: dict[str, str],
    configuration: Configuration,
    release: Callable[[], None],
    story: JobStory,
) -> JobClient:
    async def submit() -> DispatcherLink:
        link = DispatcherLink(open_leaders(configuration), configuration)
        deadline = asyncio.get_running_loop().time() + (link.patience if link.follows else 0.0)
        tries = 0
        try:
            while True:
                tries += 1
                try:
                    await link.connect()
                    await _hand_over(link, graph, paths, configuration)
                except (grpc.RpcError, ArtifactError, UnreachableError) as error:
                    if await _was_accepted(link, graph.job_id, error, tries):
                        return link
                    if not _is_unavailable(error) or asyncio.get_running_loop().time() > deadline:
                        raise _refusal(link.address, error) from None
                    await asyncio.sleep(_TRY_AGAIN_AFTER)
                else:
                    return link
        except BaseException:
            await link.close()
            raise

    link = loop.call(submit())
    return ClusterJobClient(graph.job_id, link, loop, release, story)


async def _hand_over(
    link: DispatcherLink, graph: JobGraph, paths: dict[str, str], configuration: Configuration
) -> None:
    for artifact in graph.artifacts:
        if artifact.sha256 in paths:
            await upload_artifact(link.channel, paths[artifact.sha256], artifact.kind)
    size = len(JOB_GRAPH.to_bytes(graph))
    if refused := too_large("the job, with all its functions and collections,", size, configuration):
        raise SubmissionError(refused)
    await link.stub.submit_job(SubmitJobRequest(graph))


def _code_of(error: Exception) -> grpc.StatusCode | None:
    cause = error.__cause__ if isinstance(error, ArtifactError) else error
    return cause.code() if isinstance(cause, grpc.aio.AioRpcError) else None


def _is_unavailable(error: Exception) -> bool:
    """Whether another dispatcher, or this one later, may take the job."""
    return isinstance(error, UnreachableError) or _code_of(error) is grpc.StatusCode.UNAVAILABLE


def _refusal(address: str, error: Exception) -> MillstreamError:
    """Why the job could not be submitted, or what it consists of not be uploaded."""
    if isinstance(error, UnreachableError):
        return error
    cause = error.__cause__ if isinstance(error, ArtifactError) else error
    if isinstance(cause, grpc.RpcError) and _is_unavailable(error):
        return UnreachableError(f"no dispatcher responds at {address}: {explain(cause)}. {NO_CLUSTER}")
    if isinstance(error, grpc.RpcError):
        return SubmissionError(f"the dispatcher refused the job: {explain(error)}")
    return SubmissionError(str(error))


async def _was_accepted(link: DispatcherLink, job_id: JobId, error: Exception, tries: int) -> bool:
    """Whether only the dispatcher's response was lost: to submit the job again would then run it twice."""
    may_be_there = tries > 1 or os.environ.get(JOB_ID) == job_id  # as one that an earlier process submitted
    is_refused = may_be_there and _code_of(error) is grpc.StatusCode.INVALID_ARGUMENT
    if isinstance(error, UnreachableError) or not (_is_unavailable(error) or is_refused):
        return False
    try:
        await link.connect()
        await link.stub.get_job(JobRequest(job_id), timeout=_REPEAT_TIMEOUT)
    except (grpc.RpcError, UnreachableError):
        return False
    if is_refused and tries == 1:
        print(f"Job {job_id} was submitted by an earlier process: this one waits for its end", file=sys.stderr)
    return True
