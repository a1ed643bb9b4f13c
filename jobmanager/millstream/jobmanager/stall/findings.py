"""Explains what holds a job back: findings from facts, the most specific first. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from millstream.core.jobs.ids import VertexId
from millstream.core.jobs.progress import KeptRecords, NonePassed, PendingCalls, WatermarkOrigin
from millstream.core.jobs.stalls import Finding, FindingKind, Stall
from millstream.core.jobs.states import ExecutionState, JobStatus
from millstream.core.logs.times import utc
from millstream.core.records.batches import MIN_TIMESTAMP
from millstream.jobmanager.job_master.execution_graph import SlotKey
from millstream.jobmanager.stall.batches import batch_findings
from millstream.jobmanager.stall.commits import commit_findings
from millstream.jobmanager.stall.event_time import PATIENCE_MS, event_time_findings
from millstream.jobmanager.stall.facts import JobFacts, TaskFacts
from millstream.jobmanager.stall.waiters import waiters, waiting
from millstream.jobmanager.stall.words import count, event_time, span, subtask_of

_RECENTLY_MS = 10 * 60 * 1000
_OFTEN = 3
_HIGH = 50  # percent of the time in which a task is backpressured, which Flink calls high


def explain(facts: JobFacts) -> Stall:
    """Returns all findings about a job that has not ended, and what its operators wait for."""
    findings = list(_not_running(facts))
    findings += _restarts(facts)
    if facts.state is JobStatus.RUNNING:
        findings += _not_responding(facts)
        held_back, blamed = event_time_findings(facts)
        findings += held_back
        findings += batch_findings(facts)
        findings += _paused(facts)
        waiting_calls = list(_calls(facts))
        findings += waiting_calls
        at_calls = {found.vertex_id for found in waiting_calls}
        findings += [pressed for pressed in _backpressure(facts) if pressed.vertex_id not in at_calls]
        findings += commit_findings(facts)
        explained = {(found.vertex_id, found.operator) for found in held_back}
        findings += [empty for empty in _one_sided(facts) if (empty.vertex_id, empty.operator) not in explained]
        findings += [silent for silent in _no_records(facts) if silent.vertex_id not in blamed]
        findings += _nothing_passes(facts)
    return Stall(facts.job_id, facts.name, facts.state, facts.now_ms, findings, waiting(facts))


def _not_running(facts: JobFacts) -> Iterator[Finding]:
    if facts.state is not JobStatus.RUNNING:
        why = f": {facts.message}" if facts.message else ""
        advice = "`millstream exceptions` shows why." if facts.state is JobStatus.RESTARTING else ""
        yield Finding(FindingKind.NOT_RUNNING, f"The job does not run, it is {facts.state}{why}.", advice)
        return
    started = ExecutionState.RUNNING, ExecutionState.FINISHED
    for task in facts.tasks:
        if task.state not in started:
            message = f"'{task.vertex_name}'{subtask_of(task)} does not run yet, it is {task.state}"
            since = f" since {utc(task.state_since)}" if task.state_since else ""
            yield Finding(FindingKind.NOT_RUNNING, f"{message}{since}.", "", task.vertex_id, "", task.state_since)


def _restarts(facts: JobFacts) -> Iterator[Finding]:
    """Yields a finding for a job that runs between failures only."""
    recent = [restart for restart in facts.restarts if facts.now_ms - restart[0] < _RECENTLY_MS]
    if len(recent) >= _OFTEN:
        (last, exception), first = recent[0], recent[-1][0]
        yield Finding(
            FindingKind.RESTARTS_OFTEN,
            f"The job has restarted {len(recent)} times since {utc(first)}, the last time at {utc(last)}: {exception}",
            "`millstream exceptions` shows the tracebacks; what was processed since the last checkpoint is processed "
            "again after each restart",
            since=first,
        )


def _not_responding(facts: JobFacts) -> Iterator[Finding]:
    """Yields a finding for slots whose thread has not returned from a user's function and reports nothing."""
    slots: dict[SlotKey, list[TaskFacts]] = {}
    for task in facts.running():
        slots.setdefault(task.slot, []).append(task)
    for tasks in slots.values():
        since = max(task.reported_at or task.state_since for task in tasks)
        if not since or facts.now_ms - since < PATIENCE_MS + 2 * facts.report_interval_ms:
            continue
        names = ", ".join(f"'{task.vertex_name}'{subtask_of(task)}" for task in tasks)
        yield Finding(
            FindingKind.NOT_RESPONDING,
            f"No report of {names} since {utc(since)}: a function in this slot was called and has not returned.",
            "check what it waits for, `py-spy dump` shows the stack of a worker process; give calls of other systems a "
            "timeout, or make them in an AsyncFunction",
            tasks[0].vertex_id if len(tasks) == 1 else "",
            since=since,
        )


def _paused(facts: JobFacts) -> Iterator[Finding]:
    """Yields a finding for each source that waits for others of its alignment group."""
    origins = [
        (task, reported.operator, reported.kind)
        for task in facts.running()
        for reported in task.progress.operators
        if isinstance(reported.kind, WatermarkOrigin)
    ]
    for task, operator, origin in origins:
        alignment = origin.alignment
        if alignment is None or not 0 < alignment.paused_since <= facts.now_ms - PATIENCE_MS:
            continue
        group = [
            (other, name, reported.time.watermark)
            for other, name, reported in origins
            if reported.alignment is not None and reported.alignment.group == alignment.group and not reported.time.idle
        ]
        slowest, name, watermark = min(group, key=lambda member: member[2])
        at = "no watermark yet" if watermark == MIN_TIMESTAMP else f"event time {event_time(watermark)}"
        ahead = f", {span(alignment.drift_ms)} ahead" if alignment.drift_ms else ""
        yield Finding(
            FindingKind.PAUSED_FOR_ALIGNMENT,
            f"'{operator}'{subtask_of(task)} is paused since {utc(alignment.paused_since)}: it is at event time "
            f"{event_time(origin.time.watermark)}{ahead} of its alignment group '{alignment.group}', whose slowest is "
            f"'{name}'{subtask_of(slowest)} with {at}.",
            "check why that one is slow; if it has no records, give its WatermarkStrategy with_idleness(...); or allow "
            "a larger drift in with_watermark_alignment",
            task.vertex_id,
            operator,
            alignment.paused_since,
        )


def _calls(facts: JobFacts) -> Iterator[Finding]:
    """Yields a finding for each asynchronous function whose calls have not returned a result."""
    for task in facts.running():
        for reported in task.progress.operators:
            calls = reported.kind
            if not isinstance(calls, PendingCalls) or not 0 < calls.waiting_since <= facts.now_ms - PATIENCE_MS:
                continue
            records = count(calls.under_way, "record", "records")
            full = " and accepts no more, because its capacity is used up" if calls.full else ""
            yield Finding(
                FindingKind.CALLS_WAIT,
                f"'{reported.operator}'{subtask_of(task)} waits for the results of {records}{full}: none was emitted "
                f"since {utc(calls.waiting_since)}.",
                "check whether the service that it calls responds; its timeout limits the wait, unordered_wait lets "
                "the results of other records pass",
                task.vertex_id,
                reported.operator,
                calls.waiting_since,
            )


def _backpressure(facts: JobFacts) -> Iterator[Finding]:
    """Yields a finding for each place where backpressure begins: consumers that can send, of producers that cannot."""
    pressed: dict[VertexId, list[TaskFacts]] = {}
    for task in facts.running():
        if task.time_shares.backpressured >= _HIGH:
            pressed.setdefault(task.vertex_id, []).append(task)
    consumers = {vertex: [c for c, sources in facts.producers.items() if vertex in sources] for vertex in pressed}
    found: dict[VertexId, list[VertexId]] = {}
    for vertex in pressed:
        if not any(consumer in pressed for consumer in consumers[vertex]):
            found.setdefault(_busiest(facts, consumers[vertex]) or vertex, []).append(vertex)
    for vertex, behind in found.items():
        tasks = [task for task in facts.running() if task.vertex_id == vertex]
        busiest = max(tasks, key=lambda task: task.time_shares.busy, default=None)
        if vertex in behind or busiest is None:
            share = max(task.time_shares.backpressured for task in pressed[behind[0]])
            yield Finding(
                FindingKind.BACKPRESSURE,
                f"Backpressure begins at '{_name(facts, vertex)}': for {share} % of the time it cannot hand on what it "
                "has.",
                "see who takes its results: a client that reads them slowly, or not at all, holds the job back",
                vertex,
            )
            continue
        share = max(task.time_shares.backpressured for one in behind for task in pressed[one])
        names = ", ".join(f"'{_name(facts, one)}'" for one in behind)
        yield Finding(
            FindingKind.BACKPRESSURE,
            f"Backpressure begins at '{busiest.vertex_name}'{subtask_of(busiest)}, which is busy for "
            f"{busiest.time_shares.busy} % of the time: {names} cannot send for {share} % of the time.",
            "make its functions faster, increase its parallelism, or check whether few keys get most of the records",
            vertex,
        )


def _busiest(facts: JobFacts, vertices: list[VertexId]) -> VertexId | None:
    tasks = [task for task in facts.running() if task.vertex_id in vertices]
    busiest = max(tasks, key=lambda task: task.time_shares.busy, default=None)
    return None if busiest is None else busiest.vertex_id


def _one_sided(facts: JobFacts) -> Iterator[Finding]:
    """Yields a finding for each join that has received records of only one of its streams."""
    for waiter in waiters(facts):
        kept, since = waiter.work, waiter.task.state_since
        if not isinstance(kept, KeptRecords) or facts.now_ms - since < PATIENCE_MS:
            continue
        left, right = kept.left or kept.left_came, kept.right or kept.right_came
        if bool(left) != bool(right):
            came, silent = ("left", "right") if left else ("right", "left")
            number = count(kept.left_came + kept.right_came, "record", "records")
            yield Finding(
                FindingKind.NO_RECORDS,
                f"'{waiter.operator}' took {number} of its {came} stream since {utc(since)}, and none of its "
                f"{silent} one: there is nothing to join.",
                f"check whether anything is sent to its {silent} stream, and whether what is before the join drops all "
                "of it",
                waiter.task.vertex_id,
                waiter.operator,
                since,
            )


def _no_records(facts: JobFacts) -> Iterator[Finding]:
    """Yields a finding for each source that emits nothing although nothing prevents it."""
    sending = {source for sources in facts.producers.values() for source in sources}
    vertices = list(dict.fromkeys(task.vertex_id for task in facts.running() if task.is_source))
    for vertex in vertices:
        tasks = [task for task in facts.running() if task.vertex_id == vertex]
        last = max(task.emitted_at for task in tasks)
        reported = all(task.emitted_at for task in tasks)
        if vertex not in sending or not reported or facts.now_ms - last < PATIENCE_MS or _is_stopped(tasks):
            continue
        yield Finding(
            FindingKind.NO_RECORDS,
            f"'{tasks[0].vertex_name}' has sent no record since {utc(last)}.",
            "check whether there is anything for the source to read, and whether operators chained to it drop it",
            vertex,
            since=last,
        )


def _nothing_passes(facts: JobFacts) -> Iterator[Finding]:
    """Yields a finding for each operator that has received records but emitted none in any subtask."""
    taken: dict[tuple[VertexId, str], dict[int, int]] = {}  # by subtask
    tasks: dict[VertexId, list[TaskFacts]] = {}
    for task in facts.running():
        tasks.setdefault(task.vertex_id, []).append(task)
        for reported in task.progress.operators:
            if isinstance(reported.kind, NonePassed):
                by_subtask = taken.setdefault((task.vertex_id, reported.operator), {})
                by_subtask[task.subtask] = max(reported.kind.records, by_subtask.get(task.subtask, 0))  # of one name
    for (vertex, operator), by_subtask in taken.items():
        since, records = max(task.state_since for task in tasks[vertex]), sum(by_subtask.values())
        if len(by_subtask) == len(tasks[vertex]) and records and facts.now_ms - since >= PATIENCE_MS:
            yield Finding(
                FindingKind.NOTHING_PASSES,
                f"'{operator}' has taken {count(records, 'record', 'records')} since {utc(since)}, and has not "
                "emitted any.",
                "check whether its condition ever holds for these records, or what else its function waits for",
                vertex,
                operator,
                since,
            )


def _is_stopped(tasks: list[TaskFacts]) -> bool:
    """Whether its consumers or its alignment group keep the source from emitting."""
    aligned = [
        reported.kind.alignment
        for task in tasks
        for reported in task.progress.operators
        if isinstance(reported.kind, WatermarkOrigin)
    ]
    return any(task.time_shares.backpressured >= _HIGH for task in tasks) or any(
        alignment is not None and alignment.paused_since for alignment in aligned
    )


def _name(facts: JobFacts, vertex: VertexId) -> str:
    return next(task.vertex_name for task in facts.tasks if task.vertex_id == vertex)
