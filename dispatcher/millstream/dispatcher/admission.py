"""Which job graphs are accepted. A refusal is one line: what is wrong with the graph."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.graph import Exchange, JobGraph
from millstream.core.jobs.ids import JobId, VertexId
from millstream.core.keys.key_groups import HIGHEST_MAX_PARALLELISM
from millstream.core.settings.configuration import Configuration

_ID = re.compile(r"[0-9a-f]{32}\Z")
STRATEGIES = frozenset({"FORWARD", "REBALANCE", "RESCALE", "SHUFFLE", "BROADCAST", "GLOBAL", "HASH", "CUSTOM"})


def is_id(text: str) -> bool:
    """Whether the text has the shape of a job's or vertex's id."""
    return _ID.match(text) is not None


async def check_graph(
    graph: JobGraph, is_known: Callable[[JobId], bool], has_artifact: Callable[[str], Awaitable[bool]]
) -> None:
    """Raises InvalidProgramError, or ConfigurationError for an option of the job, unless the graph can be run."""
    if not is_id(graph.job_id):
        raise InvalidProgramError(f"the job id '{graph.job_id}' is not 32 hexadecimal digits")
    if is_known(graph.job_id):
        raise InvalidProgramError(f"a job with the id {graph.job_id} was already submitted")
    if not graph.vertices:
        raise InvalidProgramError(f"job '{graph.name}' has no operators")
    seen: set[VertexId] = set()
    for vertex in graph.vertices:
        if vertex.id in seen:
            raise InvalidProgramError(f"job '{graph.name}' has two vertices with the id {vertex.id}")
        seen.add(vertex.id)
        if vertex.parallelism < 1:
            raise InvalidProgramError(f"vertex '{vertex.name}' has the parallelism {vertex.parallelism}; at least 1")
        if vertex.max_parallelism < vertex.parallelism:
            raise InvalidProgramError(
                f"vertex '{vertex.name}' has the parallelism {vertex.parallelism},"
                f" more than its maximum of {vertex.max_parallelism}"
            )
        if vertex.max_parallelism > HIGHEST_MAX_PARALLELISM:
            raise InvalidProgramError(
                f"vertex '{vertex.name}' has the maximum parallelism {vertex.max_parallelism},"
                f" and there are at most {HIGHEST_MAX_PARALLELISM} key groups"
            )
    position = {vertex.id: index for index, vertex in enumerate(graph.vertices)}
    for edge in graph.edges:
        if edge.source not in position or edge.target not in position:
            raise InvalidProgramError(f"an edge of job '{graph.name}' leads from or to a vertex that does not exist")
        if position[edge.source] >= position[edge.target]:
            raise InvalidProgramError(f"the vertices of job '{graph.name}' are not in topological order")
        if edge.strategy not in STRATEGIES:
            raise InvalidProgramError(f"an edge of job '{graph.name}' has the unknown strategy '{edge.strategy}'")
        if edge.exchange is Exchange.BLOCKING:
            source, target = graph.vertices[position[edge.source]], graph.vertices[position[edge.target]]
            raise InvalidProgramError(
                f"the edge from '{source.name}' to '{target.name}' is blocking, and this cluster does not keep the "
                "results of tasks that have ended: all edges of a job have to be pipelined"
            )
    for artifact in graph.artifacts:
        if not await has_artifact(artifact.sha256):
            raise InvalidProgramError(f"the artifact {artifact.name} of job '{graph.name}' was not uploaded")
    Configuration(graph.configuration)
