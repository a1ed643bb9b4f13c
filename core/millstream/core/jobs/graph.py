"""The job graph: vertices (chains of operators), edges, configuration and artifacts.

User code in it stays opaque bytes: services carry it, only processes in the job's own environment load it.
"""

from __future__ import annotations

from enum import IntEnum

from msgspec import Struct, field

from millstream.core.jobs.ids import JobId, OperatorId, VertexId
from millstream.core.jobs.state_kinds import StateKind


class ArtifactKind(IntEnum):
    """What to do with an artifact; the values are those of the contract."""

    WHEEL = 0
    REQUIREMENTS = 1
    PYTHON_FILE = 2
    ARCHIVE = 3
    PYTHON_FOLDER = 4
    DATA = 5
    PACKAGE = 6
    FILE = 7
    EXECUTABLE = 8


class Artifact(Struct, frozen=True):
    """A file that the job's environment is made from, by its content."""

    sha256: str
    name: str
    kind: ArtifactKind


class OperatorInfo(Struct, frozen=True):
    """An operator as people and snapshots know it. `holds` are the kinds of state that it can take over."""

    id: OperatorId
    uid: str
    name: str
    holds: frozenset[StateKind] = frozenset()

    def takes(self, kind: StateKind) -> bool:
        """Whether state of this kind is taken over; records in flight always are."""
        return kind in self.holds or kind is StateKind.IN_FLIGHT


class JobVertex(Struct, frozen=True):
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
    description: str = ""
    """For plans; empty: the name."""
    parallelism_fixed: bool = False
    """The program set its parallelism: it follows no parallelism of the job's."""
    non_parallel: bool = False
    """It can only run as one subtask."""


class JobEdge(Struct, frozen=True):
    """Data from an output of one vertex to an input of another."""

    source: VertexId
    target: VertexId
    output: int
    input: int
    strategy: str
    spec: bytes


def edge_name(target: str, number: int) -> str:
    """Names an edge by the vertex that it leads to, and by its place among the edges that do, as in the plan."""
    return f"{target}-{number}"


class SlotResources(Struct, frozen=True):
    """What each slot of a slot sharing group needs of its task manager."""

    group: str
    cpu_cores: float
    memory_bytes: int


class JobGraph(Struct, frozen=True):
    """A job, ready to be run. Vertices are in topological order."""

    job_id: JobId
    name: str
    vertices: tuple[JobVertex, ...]
    edges: tuple[JobEdge, ...]
    configuration: dict[str, str] = field(default_factory=dict)
    artifacts: tuple[Artifact, ...] = ()
    python_path: tuple[str, ...] = ()
    slot_resources: tuple[SlotResources, ...] = ()
    """Of groups that say so; others run in any slot."""

    def slots_required(self) -> int:
        """Slot sharing: each group needs as many slots as its widest vertex."""
        return sum(self.slots_by_group().values())

    def slots_by_group(self) -> dict[str, int]:
        """How many slots each slot sharing group needs: as many as its widest vertex."""
        widest: dict[str, int] = {}
        for vertex in self.vertices:
            group = vertex.slot_sharing_group
            widest[group] = max(widest.get(group, 0), vertex.parallelism)
        return widest
