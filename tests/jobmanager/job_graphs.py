"""Job graphs without code in them: the job manager never looks into a vertex."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.core.jobs.graph import JobEdge, JobGraph, JobVertex, OperatorInfo
from millstream.core.jobs.ids import JobId, OperatorId, VertexId
from millstream.core.snapshot import StateKind

ANY = frozenset(StateKind)
ANY_BUT_SPLITS = ANY - {StateKind.SPLITS}


def vertex(name: str, parallelism: int, group: str = "default", source: bool = False) -> JobVertex:
    return JobVertex(
        id=VertexId(name),
        name=name,
        parallelism=parallelism,
        max_parallelism=128,
        slot_sharing_group=group,
        operators=(
            OperatorInfo(OperatorId(name), "", name, ANY if source else ANY_BUT_SPLITS),
            OperatorInfo(OperatorId(f"{name}-tail"), "", "tail", ANY_BUT_SPLITS),
        ),
        chain=f"chain of {name}".encode(),
        source=b"source" if source else b"",
    )


def edge(source: str, target: str, strategy: str, output: int = 0, input_: int = 0) -> JobEdge:
    return JobEdge(VertexId(source), VertexId(target), output, input_, strategy, f"{source}>{target}".encode())


def job(vertices: Sequence[JobVertex], edges: Sequence[JobEdge] = (), job_id: str = "job") -> JobGraph:
    return JobGraph(JobId(job_id), f"the {job_id}", tuple(vertices), tuple(edges), {"parallelism.default": "2"})


def pipeline(*parallelisms: int, source: bool = False, job_id: str = "job") -> JobGraph:
    """`v0 -> v1 -> ...` by hash, all in one slot sharing group."""
    vertices = [vertex(f"v{i}", p, source=source and i == 0) for i, p in enumerate(parallelisms)]
    edges = [edge(f"v{i}", f"v{i + 1}", "HASH") for i in range(len(parallelisms) - 1)]
    return job(vertices, edges, job_id)
