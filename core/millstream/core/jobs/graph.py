"""The job graph: vertices (chains of operators), edges, configuration and artifacts.

User code in it is opaque bytes, which only processes in the job's own environment load.
"""

from __future__ import annotations

from enum import IntEnum

from msgspec import Struct, field

from millstream.core.jobs.ids import JobId, OperatorId, VertexId
from millstream.core.jobs.state_kinds import StateKind


class ArtifactKind(IntEnum):
    """How an artifact is used; the values are those of the contract."""

    WHEEL = 0
    REQUIREMENTS = 1
    PYTHON_FILE = 2
    ARCHIVE = 3
    PYTHON_FOLDER = 4
    DATA = 5
    PACKAGE = 6
    FILE = 7
    EXECUTABLE = 8


class Exchange(IntEnum):
    """When the consumers of an edge receive its records; the values are those of the contract."""

    PIPELINED = 0
    """While they are produced, so both ends run at the same time."""
    BLOCKING = 1
    """After all of them have been produced, from where they are kept."""


class Artifact(Struct, frozen=True):
    """A file of the job's environment, identified by its content."""

    sha256: str
    name: str
    kind: ArtifactKind


class OperatorInfo(Struct, frozen=True):
    """The description of an operator for users and snapshots. `holds` are the kinds of state that it can restore."""

    id: OperatorId
    uid: str
    name: str
    holds: frozenset[StateKind] = frozenset()

    def takes(self, kind: StateKind) -> bool:
        """Whether state of this kind can be restored; records in flight always can."""
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
    """The description in plans; empty: the name."""
    parallelism_fixed: bool = False
    """Whether the program sets its parallelism, so that it does not follow that of the job."""
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
    exchange: Exchange = Exchange.PIPELINED


def edge_name(target: str, number: int) -> str:
    """Returns the name of an edge: its target vertex and its number among the edges to it, as in the plan."""
    return f"{target}-{number}"


class SlotResources(Struct, frozen=True):
    """The resources that each slot of a slot sharing group needs of its task manager."""

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
    """For groups that specify resources; others run in any slot."""

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
