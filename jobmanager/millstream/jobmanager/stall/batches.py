"""Findings about a job that runs as a batch: operators that emit no results before their input has ended. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from millstream.core.jobs.ids import VertexId
from millstream.core.jobs.progress import AwaitingEnd
from millstream.core.jobs.stalls import Finding, FindingKind
from millstream.jobmanager.stall.facts import JobFacts
from millstream.jobmanager.stall.words import count

_ADVICE = (
    "wait until its sources have been read to their end, or read less; to get results while records arrive, run the "
    "job as a stream: env.set_runtime_mode(RuntimeExecutionMode.STREAMING), or -Dexecution.runtime-mode=STREAMING"
)


def batch_findings(facts: JobFacts) -> Iterator[Finding]:
    """Yields a finding for each operator that has received records and waits for the last of them."""
    taken: dict[tuple[VertexId, str], int] = {}
    for task in facts.running():
        for reported in task.progress.operators:
            if isinstance(reported.kind, AwaitingEnd) and reported.kind.records:
                who = task.vertex_id, reported.operator
                taken[who] = taken.get(who, 0) + reported.kind.records
    for (vertex, operator), records in taken.items():
        message = (
            f"'{operator}' has taken {count(records, 'record', 'records')}, and emits its results when its input has "
            f"ended, because the job is run as a batch: {_still_to_end(facts, vertex)}."
        )
        yield Finding(FindingKind.INPUT_NOT_ENDED, message, _ADVICE, vertex, operator)


def _still_to_end(facts: JobFacts, vertex: VertexId) -> str:
    """Describes which sources of a vertex are still being read."""
    before, pending = {vertex}, [vertex]
    while pending:
        more = [producer for producer in facts.producers.get(pending.pop(), ()) if producer not in before]
        before.update(more)
        pending += more
    reading = Counter(
        (task.vertex_name, task.parallelism) for task in facts.running() if task.is_source and task.vertex_id in before
    )
    if not reading:
        return "its sources have been read, and their records are in flight"
    names = [
        f"'{name}' ({subtasks:,} of {parallelism:,} subtasks)" if parallelism > 1 else f"'{name}'"
        for (name, parallelism), subtasks in reading.items()
    ]
    return f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} still read"
