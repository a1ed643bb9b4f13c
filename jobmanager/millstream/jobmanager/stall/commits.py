"""Findings about sinks whose results are not visible yet, and the checkpoint that they wait for. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from millstream.core.jobs.ids import VertexId
from millstream.core.jobs.progress import PendingCommits
from millstream.core.jobs.stalls import Finding, FindingKind
from millstream.core.logs.times import utc
from millstream.jobmanager.stall.event_time import PATIENCE_MS
from millstream.jobmanager.stall.facts import JobFacts
from millstream.jobmanager.stall.words import count, subtask_of

_NAMED = 3  # subtasks that are named in a message


def commit_findings(facts: JobFacts) -> Iterator[Finding]:
    """Yields a finding for each sink whose results are not visible because no checkpoint has completed."""
    waits: dict[tuple[VertexId, str], PendingCommits] = {}
    for task in facts.running():
        for reported in task.progress.operators:
            if isinstance(reported.kind, PendingCommits) and reported.kind.waiting_since:
                known = waits.get((task.vertex_id, reported.operator), PendingCommits(0, reported.kind.waiting_since))
                oldest = min(known.waiting_since, reported.kind.waiting_since)
                together = PendingCommits(known.pre_committed + reported.kind.pre_committed, oldest)
                waits[task.vertex_id, reported.operator] = together
    for (vertex, operator), pending in waits.items():
        found = _uncommitted(facts, operator, pending)
        if found is not None:
            message, advice = found
            yield Finding(FindingKind.COMMITS_WAIT, message, advice, vertex, operator, pending.waiting_since)


def _uncommitted(facts: JobFacts, operator: str, pending: PendingCommits) -> tuple[str, str] | None:
    taken, since = facts.checkpoints, pending.waiting_since
    written = f"'{operator}' has written records since {utc(since)} that are not committed"
    if facts.is_batch:
        return (
            f"{written}: the job is run as a batch, which commits its results when its input has ended.",
            "wait for that; to see results before it, run the job as a stream (execution.runtime-mode: STREAMING) with "
            "checkpoints",
        )
    if not taken.interval_ms:
        return (
            f"{written}: that happens when a checkpoint completes, and the job takes none.",
            "set execution.checkpointing.interval, or call env.enable_checkpointing(...); without it, results are only "
            "committed when the input ends",
        )
    if facts.now_ms - since < 2 * taken.interval_ms + PATIENCE_MS:
        return None
    if taken.completed_at >= since:
        waits = count(pending.pre_committed, "transaction waits", "transactions wait")
        return (
            f"{written}, though a checkpoint completed at {utc(taken.completed_at)}: {waits}.",
            "check the log of the task manager for why the sink cannot commit; the commit is retried",
        )
    last = f"since {utc(taken.completed_at)}" if taken.completed_at else "so far"
    now = f"; one is in progress since {utc(taken.under_way_since)}" if taken.under_way_since else ""
    failed = f"; the last one that failed, at {utc(taken.failed_at)}: {taken.failure}" if taken.failed_at else ""
    return (
        f"{written}: no checkpoint has completed {last}{now}{failed}.{_where_barriers_hang(facts)}",
        "check why it is slow: barriers wait behind the records before them; unaligned checkpoints overtake those "
        "(execution.checkpointing.unaligned.enabled), but not a call of a function; `GET /jobs/:jobid/checkpoints` has "
        "the details",
    )


def _where_barriers_hang(facts: JobFacts) -> str:
    """Describes the first tasks in the direction of the barriers that did not acknowledge."""
    missing = facts.checkpoints.missing
    first = [v for v in missing if not any(source in missing for source in facts.producers.get(v, ()))]
    tasks = [task for task in facts.tasks if task.vertex_id in first and task.subtask in missing[task.vertex_id]]
    names = [f"'{task.vertex_name}'{subtask_of(task)}" for task in tasks]
    more = [f"{len(names) - _NAMED:,} more"] if len(names) > _NAMED else []
    return f" Barriers came no further than {' and '.join([*names[:_NAMED], *more])}." if names else ""
