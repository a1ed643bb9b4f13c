"""A program outside of the cluster: it submits jobs, cancels them, and requests the states of jobs and slots."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass

import grpc
from inputs import KEY_GROUPS, Input
from ledger import COUNTING
from simulated_cluster import SimulatedCluster

from millstream.core.errors import UnreachableError
from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.graph import JobEdge, JobGraph, JobVertex, OperatorInfo
from millstream.core.jobs.ids import JobId, OperatorId, VertexId
from millstream.core.jobs.state_kinds import StateKind
from millstream.core.messages.dispatcher import JobRequest, SubmitJobRequest
from millstream.core.messages.resource_manager import Overview
from millstream.core.messages.session import Empty
from millstream.core.services.leader_lookup import Role
from millstream.core.services.rpc import Stub
from millstream.core.wire.contract import ServiceContract
from millstream.core.wire.contracts import DISPATCHER, RESOURCE_MANAGER

CALL_TIMEOUT = 5.0
_HOLDS = frozenset({StateKind.SPLITS, StateKind.VALUE, StateKind.TIMERS, StateKind.SINK_TRANSACTIONS})
_vertices: dict[tuple[str, int, bool], JobVertex] = {}
"""Immutable, and the same in all runs."""


@dataclass(slots=True)
class SubmittedJob:
    """What the client knows of a job. It is `accepted` once the cluster has confirmed the submission."""

    graph: JobGraph
    accepted: bool = False
    known_since: int = 0
    """How many starts of dispatchers there had been when it was accepted."""


class SimulatedClient:
    """Calls wait for no longer than `CALL_TIMEOUT`: what came of them is not known then."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.jobs: dict[JobId, SubmittedJob] = {}
        self.process = cluster.world.loop.process("client")
        self._cluster = cluster
        self._world = cluster.world
        self._timeout = CALL_TIMEOUT * cluster.shape.scale
        self._configuration = cluster.configuration_of_clients()
        self._leaders = cluster.leaders(self._configuration, self.process)
        self._numbers = itertools.count(1)

    @property
    def accepted(self) -> list[JobId]:
        return [job_id for job_id, job in self.jobs.items() if job.accepted]

    async def submit(self, widths: list[int], options: dict[str, str], with_source: bool) -> JobId | None:
        """A pipeline of vertices as wide as that; None when the submission was not confirmed.

        A submission without a response is sometimes sent again, under the same id: the job must not run twice.
        """
        job_id = JobId(f"{next(self._numbers):032x}")
        names = [f"{'source' if with_source and i == 0 else 'vertex'}{i}" for i in range(len(widths))]
        random = self._world.random
        edges = tuple(
            JobEdge(VertexId(one), VertexId(other), 0, 0, strategy, f"{strategy}:{one}".encode())
            for one, other in itertools.pairwise(names)
            for strategy in [random.choice(("HASH", "HASH", "FORWARD"))]
        )
        counting = next((edge.target for edge in edges if edge.strategy == "HASH"), None)
        vertices = tuple(
            _vertex(name, width, name == counting) for name, width in zip(names, widths, strict=True)
        )
        graph = JobGraph(job_id, f"job {job_id[-4:]}", vertices, edges, options)
        self.jobs[job_id] = SubmittedJob(graph)
        given = Input(random.randint(*self._cluster.shape.splits), random.randint(*self._cluster.shape.length))
        self._cluster.ledger.submitted(graph, given)
        if not await self._submit(self.jobs[job_id]) and self._world.random.random() < 0.5:
            await self._submit(self.jobs[job_id])
        return job_id if self.jobs[job_id].accepted else None

    async def _submit(self, job: SubmittedJob) -> bool:
        starts = self._cluster.starts
        try:
            stub = await self._stub(Role.DISPATCHER, DISPATCHER)
            await stub.submit_job(SubmitJobRequest(job.graph), timeout=self._timeout)
        except UnreachableError:
            return False
        except grpc.RpcError as error:
            if "already submitted" not in (getattr(error, "details", str)() or ""):
                return False
        self._world.tell(f"job {job.graph.job_id} is accepted")
        job.accepted, job.known_since = True, starts
        return True

    async def cancel(self, job_id: JobId) -> None:
        with contextlib.suppress(grpc.RpcError, UnreachableError):
            stub = await self._stub(Role.DISPATCHER, DISPATCHER)
            await stub.cancel_job(JobRequest(job_id), timeout=self._timeout)

    async def list_jobs(self) -> dict[JobId, JobDetails] | None:
        """As the dispatcher reports them; None when it does not respond."""
        try:
            stub = await self._stub(Role.DISPATCHER, DISPATCHER)
            response = await stub.list_jobs(Empty(), timeout=self._timeout)
        except (grpc.RpcError, UnreachableError):
            return None
        return {JobId(details.job_id): details for details in response.jobs}

    async def overview(self) -> Overview | None:
        """Of the resource manager; None when it does not respond."""
        try:
            stub = await self._stub(Role.RESOURCE_MANAGER, RESOURCE_MANAGER)
            overview = await stub.get_overview(Empty(), timeout=self._timeout)
        except (grpc.RpcError, UnreachableError):
            return None
        assert isinstance(overview, Overview)
        return overview

    async def _stub(self, role: Role, contract: ServiceContract) -> Stub:
        address = (await self._leaders.leader_of(role)).address
        network = self._world.network.of(self.process)
        return Stub(network.open_channel(address, self._configuration), contract)


def _vertex(name: str, width: int, counts: bool) -> JobVertex:
    key = (name, width, counts)
    if key not in _vertices:
        operators = (OperatorInfo(OperatorId(name), name, name, _HOLDS),)
        source, chain = b"source" if name == "source0" else b"", COUNTING if counts else b""
        most = KEY_GROUPS if width <= KEY_GROUPS else 2 * width
        _vertices[key] = JobVertex(VertexId(name), name, width, most, "default", operators, chain, source)
    return _vertices[key]
