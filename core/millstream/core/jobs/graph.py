"""The job graph: vertices (chains of operators), edges, configuration and artifacts; and its form on the wire.

User code in it stays opaque bytes: services carry it, only processes in the job's own environment load it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from millstream.core.jobs.ids import JobId, OperatorId, VertexId
from millstream.core.jobs.state_kinds import StateKind
from millstream.proto import graph_pb2 as pb


class ArtifactKind(IntEnum):
    """What to do with an artifact; the values are those of the contract."""

    WHEEL = pb.Artifact.WHEEL
    REQUIREMENTS = pb.Artifact.REQUIREMENTS
    PYTHON_FILE = pb.Artifact.PYTHON_FILE
    ARCHIVE = pb.Artifact.ARCHIVE
    PYTHON_FOLDER = pb.Artifact.PYTHON_FOLDER
    DATA = pb.Artifact.DATA


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file that the job's environment is made from, by its content."""

    sha256: str
    name: str
    kind: ArtifactKind

    def to_proto(self) -> pb.Artifact:
        """On the way out."""
        return pb.Artifact(sha256=self.sha256, name=self.name, kind=self.kind.value)

    @staticmethod
    def from_proto(message: pb.Artifact) -> Artifact:
        """On the way in."""
        return Artifact(message.sha256, message.name, ArtifactKind(message.kind))


@dataclass(frozen=True, slots=True)
class OperatorInfo:
    """An operator as people and snapshots know it. `holds` are the kinds of state that it can take over."""

    id: OperatorId
    uid: str
    name: str
    holds: frozenset[StateKind] = frozenset()

    def takes(self, kind: StateKind) -> bool:
        """Whether state of this kind is taken over; records on their way always are."""
        return kind in self.holds or kind is StateKind.IN_FLIGHT

    def to_proto(self) -> pb.Operator:
        """On the way out."""
        return pb.Operator(id=self.id, uid=self.uid, name=self.name, holds=sorted(kind.value for kind in self.holds))

    @staticmethod
    def from_proto(message: pb.Operator) -> OperatorInfo:
        """On the way in."""
        return OperatorInfo(OperatorId(message.id), message.uid, message.name, frozenset(map(StateKind, message.holds)))


@dataclass(frozen=True, slots=True)
class JobVertex:
    """One task of the job, to be run `parallelism` times."""

    id: VertexId
    name: str
    parallelism: int
    max_parallelism: int
    slot_sharing_group: str
    operators: tuple[OperatorInfo, ...]
    chain: bytes
    source: bytes = b""
    max_parallelism_derived: bool = False


@dataclass(frozen=True, slots=True)
class JobEdge:
    """Data from an output of one vertex to an input of another."""

    source: VertexId
    target: VertexId
    output: int
    input: int
    strategy: str
    spec: bytes


@dataclass(frozen=True, slots=True)
class JobGraph:
    """A job, ready to be run. Vertices are in topological order."""

    job_id: JobId
    name: str
    vertices: tuple[JobVertex, ...]
    edges: tuple[JobEdge, ...]
    configuration: dict[str, str] = field(default_factory=dict)
    artifacts: tuple[Artifact, ...] = ()
    python_path: tuple[str, ...] = ()

    def slots_required(self) -> int:
        """Slot sharing: each group needs as many slots as its widest vertex."""
        widest: dict[str, int] = {}
        for vertex in self.vertices:
            group = vertex.slot_sharing_group
            widest[group] = max(widest.get(group, 0), vertex.parallelism)
        return sum(widest.values())

    def to_proto(self) -> pb.JobGraph:
        """On the way out."""
        return pb.JobGraph(
            job_id=self.job_id,
            name=self.name,
            vertices=[
                pb.Vertex(
                    id=v.id, name=v.name, parallelism=v.parallelism, max_parallelism=v.max_parallelism,
                    slot_sharing_group=v.slot_sharing_group, chain=v.chain, source=v.source,
                    max_parallelism_derived=v.max_parallelism_derived,
                    operators=[o.to_proto() for o in v.operators],
                )
                for v in self.vertices
            ],
            edges=[
                pb.Edge(
                    source=e.source, target=e.target, output=e.output, input=e.input, strategy=e.strategy, spec=e.spec
                )
                for e in self.edges
            ],
            configuration=self.configuration,
            artifacts=[a.to_proto() for a in self.artifacts],
            python_path=self.python_path,
        )  # fmt: skip

    @staticmethod
    def from_proto(message: pb.JobGraph) -> JobGraph:
        """On the way in."""
        return JobGraph(
            job_id=JobId(message.job_id),
            name=message.name,
            vertices=tuple(
                JobVertex(
                    VertexId(v.id), v.name, v.parallelism, v.max_parallelism, v.slot_sharing_group,
                    tuple(map(OperatorInfo.from_proto, v.operators)), v.chain, v.source,
                    v.max_parallelism_derived,
                )
                for v in message.vertices
            ),
            edges=tuple(
                JobEdge(VertexId(e.source), VertexId(e.target), e.output, e.input, e.strategy, e.spec)
                for e in message.edges
            ),
            configuration=dict(message.configuration),
            artifacts=tuple(Artifact.from_proto(a) for a in message.artifacts),
            python_path=tuple(message.python_path),
        )  # fmt: skip
