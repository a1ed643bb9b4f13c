"""Runs job graphs: on a cluster, or on one embedded in this process."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import grpc

from millstream.client.embedded import EmbeddedCluster
from millstream.client.job_client import ClusterJobClient
from millstream.client.job_story import JobStory
from millstream.client.loop_thread import LoopThread
from millstream.core.artifacts import upload_artifact
from millstream.core.configuration import Configuration
from millstream.core.errors import NO_CLUSTER, SubmissionError, UnreachableError
from millstream.core.graph import JobGraph
from millstream.core.rpc import Stub, explain, open_channel
from millstream.datastream.execution import Executor, JobClient
from millstream.proto import dispatcher_pb2 as dp

logging.getLogger("millstream").addHandler(logging.NullHandler())  # a library: silent unless the program logs
_DETACHED = (
    "It runs detached: see it with millstream list, why it restarts or fails with millstream exceptions {0}, and stop "
    "it with millstream cancel {0}"
)
_SERVICE = dp.DESCRIPTOR.services_by_name["Dispatcher"]


def make_executor(configuration: Configuration) -> Executor:
    """The executor for `execution.target`."""
    if configuration.string("execution.target") == "remote":
        return RemoteExecutor(configuration)
    return LocalExecutor(configuration)


class RemoteExecutor:
    """Submits to the dispatcher at `dispatcher.rpc.address`."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def submit(self, graph: JobGraph, artifact_paths: dict[str, str] | None = None) -> JobClient:
        """Uploads what the cluster does not have, then submits."""
        host = self._configuration.string("dispatcher.rpc.address")
        address = f"{host}:{self._configuration.integer('dispatcher.rpc.port')}"
        loop = LoopThread("millstream client")
        try:
            story = JobStory(everything=True)
            client = _submit(loop, address, graph, artifact_paths or {}, self._configuration, loop.close, story)
        except BaseException:
            loop.close()
            raise
        print(f"Job has been submitted with JobID {graph.job_id}", flush=True)
        record = os.environ.get("MILLSTREAM_SUBMITTED_FILE")
        if not record and not self._configuration.boolean("execution.attached"):
            print(_DETACHED.format(graph.job_id), file=sys.stderr)
        if record:
            with Path(record).open("a") as file:
                file.write(f"{graph.job_id}\n")
        return client


class LocalExecutor:
    """Starts an embedded cluster with as many slots as the job needs, and ends it with the job."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def submit(self, graph: JobGraph, artifact_paths: dict[str, str] | None = None) -> JobClient:
        """Runs the job here."""
        slots = max(graph.slots_required(), self._configuration.integer("taskmanager.numberOfTaskSlots"))
        loop = LoopThread("millstream")
        quiet = {} if self._configuration.is_set("logging.level") else {"logging.level": "WARNING"}
        cluster = EmbeddedCluster(self._configuration.merged(quiet), slots)

        def release() -> None:
            try:
                loop.call(cluster.stop())
            finally:
                loop.close()

        try:
            address = loop.call(cluster.start())
            here = tuple(dict.fromkeys([*graph.python_path, *map(os.path.abspath, sys.path)]))
            local = replace(graph, python_path=here)
            story = JobStory(everything=False)
            return _submit(loop, address, local, artifact_paths or {}, self._configuration, release, story)
        except BaseException:
            release()
            raise


def _submit(
    loop: LoopThread,
    address: str,
    graph: JobGraph,
    paths: dict[str, str],
    configuration: Configuration,
    release: Callable[[], None],
    story: JobStory,
) -> JobClient:
    async def submit() -> Stub:
        channel = open_channel(address, configuration)
        stub = Stub(channel, _SERVICE)
        try:
            for artifact in graph.artifacts:
                if artifact.sha256 in paths:
                    await upload_artifact(channel, paths[artifact.sha256], artifact.kind)
            await stub.submit_job(dp.SubmitJobRequest(graph=graph.to_proto()))
        except grpc.RpcError as error:
            await channel.close()
            if isinstance(error, grpc.aio.AioRpcError) and error.code() == grpc.StatusCode.UNAVAILABLE:
                raise UnreachableError(
                    f"no dispatcher answers at {address}: {explain(error)}. {NO_CLUSTER}"
                ) from None
            raise SubmissionError(f"the dispatcher refused the job: {explain(error)}") from None
        return stub

    stub = loop.call(submit())
    return ClusterJobClient(graph.job_id, stub, loop, configuration, release, story)
