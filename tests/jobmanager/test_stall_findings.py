"""What is found to hold a job back, from facts that are given by hand: each finding, word for word."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from millstream.core.jobs.details import JobDetails, TaskMetrics
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.ids import JobId, VertexId
from millstream.core.jobs.progress import (
    AlignmentStatus,
    AwaitingEnd,
    EventTime,
    KeptRecords,
    NonePassed,
    OperatorProgress,
    PendingCalls,
    PendingCommits,
    StreamTime,
    TaskProgress,
    TimedKind,
    TimedWork,
    WatermarkOrigin,
)
from millstream.core.jobs.stalls import Finding, FindingKind, WaitingKind, ended
from millstream.core.jobs.states import ExecutionState, JobStatus
from millstream.core.records.batches import MAX_TIMESTAMP, MIN_TIMESTAMP
from millstream.jobmanager.job_master.execution_graph import SlotKey, TimeShares
from millstream.jobmanager.stall.facts import CheckpointFacts, JobFacts, TaskFacts
from millstream.jobmanager.stall.findings import explain

NOW = 1_700_000_100_000  # 2023-11-14 22:15:00 UTC
LONG_AGO = NOW - 60_000  # 22:14:00
SOURCE, WINDOW, SINK = VertexId("source"), VertexId("window"), VertexId("sink")
BUSY, FREE = TimeShares(busy=97, backpressured=0), TimeShares()
HELD = TimeShares(busy=5, backpressured=90)


def streams(*times: StreamTime, watermark: int | None = None) -> EventTime:
    awake = [time for time in times if not time.idle]
    lowest = min((time.watermark for time in awake or times), default=MIN_TIMESTAMP)
    slowest = tuple(sorted(awake or times, key=lambda time: time.watermark))
    highest = max((time.watermark for time in awake), default=MIN_TIMESTAMP)
    idle = len(times) - len(awake)
    return EventTime(
        lowest if watermark is None else watermark, bool(times) and not awake, len(times), idle, highest, slowest
    )


def moving(name: str, watermark: int) -> StreamTime:
    return StreamTime(name, watermark, NOW - 100, NOW - 50)


def silent(name: str, watermark: int) -> StreamTime:
    return StreamTime(name, watermark, LONG_AGO, LONG_AGO)


def source(
    *splits: StreamTime, subtask: int = 0, parallelism: int = 1, name: str = "Source: orders", vertex: str = SOURCE,
    operators: tuple[OperatorProgress, ...] = (), alignment: AlignmentStatus | None = None, **more: Any,
) -> TaskFacts:  # fmt: skip
    origin = OperatorProgress(name, WatermarkOrigin(streams(*splits), alignment=alignment))
    made = TaskFacts(
        VertexId(vertex), name, subtask, parallelism, is_source=True, emitted_at=NOW,
        progress=TaskProgress(None, (origin, *operators)), output_watermark=streams(*splits).watermark,
    )  # fmt: skip
    return replace(made, **more)


def windows(inputs: EventTime, next_event_time: int | None = 10_000, windows: bool = True, **more: Any) -> TaskFacts:
    work = TimedWork(TimedKind.WINDOWS if windows else TimedKind.TIMERS, 3, 120 if windows else 0, next_event_time)
    progress = TaskProgress(inputs, (OperatorProgress("Window(Tumbling)", work),))
    made = TaskFacts(WINDOW, "Window(Tumbling)", 0, 1, progress=progress, emitted_at=NOW)
    return replace(made, **more)


def channels(*tasks: TaskFacts) -> EventTime:
    """What a consumer of these knows."""
    return streams(*(StreamTime(task.name, task.output_watermark or MIN_TIMESTAMP, LONG_AGO) for task in tasks))


def job(*tasks: TaskFacts, **more: Any) -> JobFacts:
    producers = {WINDOW: [task.vertex_id for task in tasks if task.is_source], SINK: [WINDOW]}
    return replace(JobFacts(JobId("j"), "orders", JobStatus.RUNNING, NOW, tasks, producers), **more)


def found(*tasks: TaskFacts, **more: Any) -> list[Finding]:
    return list(explain(job(*tasks, **more)).findings)


def the_only(*tasks: TaskFacts, **more: Any) -> Finding:
    (finding,) = found(*tasks, **more)
    return finding


def test_a_silent_split_holds_back_a_window_that_others_have_passed() -> None:
    orders = source(moving("p0", 60_000), silent("p1", 7_000))
    finding = the_only(orders, windows(channels(orders)))
    assert finding.message == (
        "'Window(Tumbling)' waits for event time 1970-01-01 00:00:10.000 UTC (it is 1970-01-01 00:00:07.000 UTC now) "
        "with 3 open windows, which took 120 records since the last firing. It is held back by split 'p1' of "
        "'Source: orders', from which no record has arrived since 2023-11-14 22:14:00 UTC and which "
        "is at event time 1970-01-01 00:00:07.000 UTC; the others have come to 1970-01-01 00:01:00.000 UTC."
    )
    assert finding.advice == (
        "have records sent there, or give its WatermarkStrategy with_idleness(...), so that operators do not wait "
        "for a stream without records"
    )
    assert (finding.kind, finding.vertex_id, finding.operator, finding.since) == (
        FindingKind.WATERMARK_HELD_BACK, WINDOW, "Window(Tumbling)", LONG_AGO,
    )  # fmt: skip


def test_a_subtask_of_which_no_record_ever_came_is_named() -> None:
    orders = source(moving("", 60_000), subtask=0, parallelism=2)
    nothing = source(StreamTime("", MIN_TIMESTAMP, LONG_AGO), subtask=1, parallelism=2)
    finding = the_only(orders, nothing, windows(channels(orders, nothing)))
    assert "(no watermark has arrived yet) with 3 open windows, which took" in finding.message
    assert (
        "It is held back by 'Source: orders' (2/2), from which no record has arrived since it began at "
        "2023-11-14 22:14:00 UTC; the others have come to 1970-01-01 00:01:00.000 UTC." in finding.message
    )


def test_it_is_followed_through_tasks_in_between_to_where_watermarks_are_made() -> None:
    """Watermarks of the source end at `Timestamps/Watermarks`, of which one subtask is silent."""
    orders = source(moving("", 99_000), vertex="s")
    made = [
        OperatorProgress("Timestamps/Watermarks", WatermarkOrigin(streams(stream)))
        for stream in (moving("", 60_000), silent("", 5_000))
    ]
    stamps = [
        TaskFacts(
            SOURCE, "Timestamps", n, 2, progress=TaskProgress(channels(orders), (origin,)),
            output_watermark=(60_000, 5_000)[n], emitted_at=NOW,
        )
        for n, origin in enumerate(made)
    ]  # fmt: skip
    facts = job(orders, *stamps, windows(channels(*stamps)))
    facts = replace(facts, producers={WINDOW: [SOURCE], SOURCE: [VertexId("s")]})
    (finding,) = explain(facts).findings
    assert "held back by 'Timestamps/Watermarks' (2/2), from which no record has arrived" in finding.message


def test_several_that_hold_it_back_are_all_named_the_slowest_first() -> None:
    orders = source(moving("p0", 60_000), silent("p1", 7_000), silent("p2", 3_000))
    message = the_only(orders, windows(channels(orders))).message
    assert message.index("split 'p2'") < message.index("split 'p1'")
    assert "p0" not in message


def test_one_that_moves_is_not_blamed_and_event_time_that_has_to_come_is_no_finding() -> None:
    orders = source(moving("p0", 60_000), moving("p1", 7_000))
    stall = explain(job(orders, windows(channels(orders))))
    assert stall.findings == []
    assert stall.as_json()["summary"] == "Nothing holds it back."
    (waits,) = stall.waiting
    assert (waits.operator, waits.open, waits.records, waits.event_time, waits.next_event_time) == (
        "Window(Tumbling)", 3, 120, 7_000, 10_000,
    )  # fmt: skip


def test_a_watermark_on_its_way_is_not_the_producer_s_fault() -> None:
    orders = source(silent("p0", 60_000))
    behind = streams(StreamTime(orders.name, 5_000, LONG_AGO))
    assert found(orders, windows(behind)) == []


def test_records_whose_timestamps_stand_still() -> None:
    orders = source(StreamTime("p0", 5_000, LONG_AGO, NOW))
    finding = the_only(orders, windows(channels(orders)))
    assert (
        "split 'p0' of 'Source: orders', which sends records, the last at 2023-11-14 22:15:00 UTC, but has stayed at "
        "event time 1970-01-01 00:00:05.000 UTC since 2023-11-14 22:14:00 UTC." in finding.message
    )
    assert "no_watermarks() generates none" in finding.advice


def test_a_source_without_a_strategy_makes_no_watermarks() -> None:
    origin = OperatorProgress("Source: orders", WatermarkOrigin(makes_watermarks=False))
    orders = source(progress=TaskProgress(None, (origin,)), output_watermark=MIN_TIMESTAMP)
    finding = the_only(orders, windows(channels(orders)))
    assert finding.kind is FindingKind.NO_WATERMARKS
    assert "It is held back by 'Source: orders', which emits no watermarks." in finding.message
    assert finding.advice == (
        "pass a WatermarkStrategy to from_source, or call assign_timestamps_and_watermarks before the windows"
    )


def test_a_reader_without_a_split() -> None:
    orders, none = source(moving("p0", 60_000), parallelism=2), source(subtask=1, parallelism=2)
    finding = the_only(orders, none, windows(channels(orders, none)))
    assert finding.kind is FindingKind.NO_RECORDS
    assert "'Source: orders' (2/2), which has no split to read" in finding.message
    assert "lower the source's parallelism" in finding.advice


def test_when_all_streams_are_idle_event_time_stands_still() -> None:
    orders = source(StreamTime("p0", 5_000, LONG_AGO, LONG_AGO, idle=True))
    idle = streams(StreamTime(orders.name, 5_000, LONG_AGO, idle=True))
    finding = the_only(orders, windows(idle))
    assert finding.kind is FindingKind.ALL_IDLE
    assert "split 'p0' of 'Source: orders', which has been idle since 2023-11-14 22:14:00 UTC, like all others" in (
        finding.message
    )


def test_an_idle_stream_beside_others_is_not_waited_for() -> None:
    orders = source(moving("p0", 7_000), StreamTime("p1", 1_000, LONG_AGO, LONG_AGO, idle=True))
    assert found(orders, windows(channels(orders))) == []


def test_a_source_that_has_gone_silent_as_a_whole() -> None:
    orders = source(silent("p0", 7_000), emitted_at=LONG_AGO)
    finding = the_only(orders, windows(channels(orders)))
    assert finding.kind is FindingKind.NO_RECORDS
    assert "the others" not in finding.message
    assert finding.advice == "send records: event time advances with them, and reaches its end with the input"


def test_timers_of_a_process_function_wait_as_windows_do() -> None:
    orders = source(moving("p0", 60_000), silent("p1", 7_000))
    message = the_only(orders, windows(channels(orders), windows=False)).message
    assert "(it is 1970-01-01 00:00:07.000 UTC now) with 3 keys with timers. It is held back" in message


def test_processing_time_windows_are_no_stall() -> None:
    orders = source(silent("p1", 7_000))
    clock = TimedWork(TimedKind.WINDOWS, 20_000, 5, None, NOW + 10)
    task = windows(channels(orders), progress=TaskProgress(channels(orders), (OperatorProgress("W", clock),)))
    stall = explain(job(orders, task))
    assert stall.findings == []
    assert stall.waiting[0].next_processing_time == NOW + 10


def test_an_operator_is_one_over_all_its_subtasks_and_the_slowest_of_them_decides() -> None:
    orders = source(moving("p0", 60_000), silent("p1", 7_000))
    slow, done = windows(channels(orders), parallelism=2), windows(streams(moving("x", MAX_TIMESTAMP)), 12_000)
    done = replace(done, subtask=1, parallelism=2)
    for tasks in ((slow, done), (done, slow)):
        stall = explain(job(orders, *tasks))
        (waits,) = stall.waiting
        assert (waits.open, waits.records, waits.event_time, waits.next_event_time) == (6, 240, 7_000, 10_000)
        assert "6 open windows, which took 240 records" in stall.findings[0].message


def test_very_many_windows_are_not_counted_to_the_end() -> None:
    orders = source(silent("p1", 7_000))
    work = OperatorProgress("W", TimedWork(TimedKind.WINDOWS, 10_000, 1, 10_000))
    task = windows(channels(orders), progress=TaskProgress(channels(orders), (work,)))
    message = the_only(orders, task).message
    assert " with at least 10,000 open windows, which took 1 record since the last firing." in message


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (TimedWork(TimedKind.WINDOWS_OF_ALL_KEYS, 2, 12_345, 10_000), "2 open windows, each for all keys, which took"),
        (TimedWork(TimedKind.WINDOWS_OF_ALL_KEYS, 1, 1, 10_000), "1 open window for all keys, which took 1 record "),
        (TimedWork(TimedKind.SESSIONS, 12_345, 2, 10_000), "at most 12,345 open sessions, which took 2 records since"),
        (TimedWork(TimedKind.SESSIONS, 1, 0, 10_000), "1 open session."),
        (TimedWork(TimedKind.TIMERS, 20_000, 0, 10_000), "at least 20,000 keys with timers."),
    ],
)
def test_what_waits_is_named_as_it_is_counted(work: TimedWork, words: str) -> None:
    orders = source(silent("p1", 7_000))
    task = windows(channels(orders), progress=TaskProgress(channels(orders), (OperatorProgress("W", work),)))
    stall = explain(job(orders, task))
    assert f" with {words}" in stall.findings[0].message
    assert f"'W': {words.strip('.')}" in stall.waiting[0].message


def test_windows_that_no_clock_ends_wait_for_records() -> None:
    orders = source(moving("p1", 7_000))
    work = OperatorProgress("W", TimedWork(TimedKind.WINDOWS, 0, 5))
    (waits,) = explain(job(orders, windows(channels(orders), progress=TaskProgress(None, (work,))))).waiting
    assert waits.message == "'W': windows that wait for more records, which took 5 records since the last firing"


def join(inputs: EventTime, kept: KeptRecords, **more: Any) -> TaskFacts:
    progress = TaskProgress(inputs, (OperatorProgress("Interval join", kept),))
    return replace(windows(inputs), progress=progress, state_since=LONG_AGO, reported_at=NOW, **more)


def test_an_interval_join_whose_records_cannot_go_and_over_all_its_subtasks() -> None:
    orders = source(moving("p0", 60_000), silent("p1", 7_000))
    one = join(channels(orders), KeptRecords(1_200, 7, 1_200, 7, 12_000), parallelism=2)
    other = join(channels(orders), KeptRecords(3, 0, 3, 0, 10_000), subtask=1, parallelism=2)
    stall = explain(job(orders, one, other))
    (finding,) = stall.findings
    assert finding.kind is FindingKind.WATERMARK_HELD_BACK
    assert finding.message.startswith(
        "'Interval join' keeps 1,203 records of its left stream and 7 of its right one until event time "
        "1970-01-01 00:00:10.000 UTC (it is 1970-01-01 00:00:07.000 UTC now), and more with every record that arrives. "
        "It is held back by split 'p1' of 'Source: orders', "
    )
    (waits,) = stall.waiting
    assert (waits.kind, waits.open, waits.records) == (WaitingKind.RECORDS, 1_210, None)
    assert waits.message == (
        "'Interval join': 1,203 records of its left stream and 7 of its right one, kept for matching records to come; "
        "the oldest go at event time 1970-01-01 00:00:10.000 UTC (it is 1970-01-01 00:00:07.000 UTC now)"
    )


def test_an_interval_join_waits_for_no_watermark_that_all_streams_are_before() -> None:
    orders = source(silent("p0", 7_000))
    kept = KeptRecords(3, 4, 3, 4, 10_000)
    assert FindingKind.WATERMARK_HELD_BACK not in {f.kind for f in found(orders, join(channels(orders), kept))}


def test_an_interval_join_to_which_only_one_stream_sends() -> None:
    orders = source(moving("p0", 60_000))
    finding = the_only(orders, join(channels(orders), KeptRecords(0, 5, 0, 1_200, 61_000)))
    assert finding.kind is FindingKind.NO_RECORDS
    assert finding.message == (
        "'Interval join' took 1,200 records of its right stream since 2023-11-14 22:14:00 UTC, and none of its left "
        "one: there is nothing to join."
    )
    assert "anything is sent to its left stream" in finding.advice
    for kept in (KeptRecords(), KeptRecords(0, 5, 1, 5), KeptRecords(2, 5, 0, 5)):
        assert found(orders, join(channels(orders), kept)) == []
    soon = replace(join(channels(orders), KeptRecords(0, 5, 0, 5)), state_since=NOW - 100)
    assert found(orders, soon) == [], "it has hardly begun"


def test_backpressure_begins_at_the_task_that_is_busy_and_not_at_those_before_it() -> None:
    orders = source(moving("p0", 60_000), time_shares=HELD)
    count = windows(channels(orders), None, time_shares=HELD)
    slow = TaskFacts(SINK, "Sink: slow", 1, 2, time_shares=BUSY, emitted_at=NOW)
    finding = the_only(orders, count, replace(slow, subtask=0, time_shares=FREE), slow)
    assert (finding.kind, finding.vertex_id) == (FindingKind.BACKPRESSURE, SINK)
    assert finding.message == (
        "Backpressure begins at 'Sink: slow' (2/2), which is busy for 97 % of the time: 'Window(Tumbling)' cannot send "
        "for 90 % of the time."
    )
    assert "increase its parallelism" in finding.advice


def test_an_asynchronous_function_of_which_no_result_comes() -> None:
    orders = source(moving("p0", 60_000), time_shares=HELD)

    def asking(calls: PendingCalls) -> TaskFacts:
        progress = TaskProgress(channels(orders), (OperatorProgress("Ask", calls),))
        return replace(windows(channels(orders)), progress=progress, parallelism=2, time_shares=FREE)

    finding = the_only(orders, asking(PendingCalls(5, True, LONG_AGO)))
    assert (finding.kind, finding.vertex_id, finding.operator) == (FindingKind.CALLS_WAIT, WINDOW, "Ask")
    assert finding.message == (
        "'Ask' (1/2) waits for the results of 5 records and accepts no more, because its capacity is used up: none "
        "was emitted since 2023-11-14 22:14:00 UTC."
    )
    one = the_only(orders, asking(PendingCalls(1, False, LONG_AGO)))
    assert "waits for the results of 1 record: none was emitted since" in one.message
    kinds = [finding.kind for finding in found(orders, asking(PendingCalls(5, True, NOW - 100)))]
    assert kinds == [FindingKind.BACKPRESSURE], "results come"


def test_an_operator_that_lets_nothing_through() -> None:
    orders = source(moving("p0", 60_000))

    def filtering(subtask: int, *taken: int, since: int = LONG_AGO) -> TaskFacts:
        told = tuple(OperatorProgress("Filter", NonePassed(records)) for records in taken)
        made = replace(windows(channels(orders)), progress=TaskProgress(channels(orders), told))
        return replace(made, subtask=subtask, parallelism=2, state_since=since, reported_at=NOW)

    finding = the_only(orders, filtering(0, 1200), filtering(1, 0))
    assert (finding.kind, finding.vertex_id, finding.operator) == (FindingKind.NOTHING_PASSES, WINDOW, "Filter")
    assert finding.message == "'Filter' has taken 1,200 records since 2023-11-14 22:14:00 UTC, and has not emitted any."
    assert not found(orders, filtering(0, 1200), filtering(1)), "the other one has"
    assert not found(orders, filtering(0, 0), filtering(1, 0)), "nothing has come to it"
    assert not found(orders, filtering(0, 5, since=NOW - 100), filtering(1, 0)), "it has hardly begun"


def test_an_operator_of_a_batch_has_results_when_its_input_has_ended() -> None:
    def holding(records: int) -> TaskFacts:
        progress = TaskProgress(None, (OperatorProgress("Sums", AwaitingEnd(records)),))
        return replace(windows(streams()), progress=progress)

    first, second = (source(subtask=number, parallelism=2) for number in (0, 1))
    finding = the_only(first, second, holding(120_000))
    assert (finding.kind, finding.vertex_id, finding.operator) == (FindingKind.INPUT_NOT_ENDED, WINDOW, "Sums")
    assert finding.message == (
        "'Sums' has taken 120,000 records, and emits its results when its input has ended, because the job is run as "
        "a batch: 'Source: orders' (2 of 2 subtasks) is still read."
    )
    assert "set_runtime_mode(RuntimeExecutionMode.STREAMING)" in finding.advice
    ended = replace(first, state=ExecutionState.FINISHED)
    assert "(1 of 2 subtasks) is still read." in the_only(ended, second, holding(1)).message
    others = replace(ended, subtask=1)
    on_the_way = the_only(ended, others, holding(1)).message
    assert on_the_way.endswith("run as a batch: its sources have been read, and their records are in flight.")
    assert found(first, second, holding(0)) == [], "nothing has come so far"


def test_a_batch_commits_when_its_input_has_ended() -> None:
    writing = OperatorProgress("Files", PendingCommits(0, LONG_AGO))
    sink = replace(windows(streams()), progress=TaskProgress(None, (writing,)))
    facts = JobFacts(JobId("job"), "job", JobStatus.RUNNING, NOW, [source(), sink], is_batch=True)
    (finding,) = explain(facts).findings
    assert finding.kind is FindingKind.COMMITS_WAIT
    assert finding.message.endswith("the job is run as a batch, which commits its results when its input has ended.")


def test_a_task_that_cannot_hand_on_its_results_is_where_backpressure_begins() -> None:
    orders = source(moving("p0", 60_000), time_shares=HELD)
    collecting = windows(channels(orders), None, time_shares=HELD)
    finding = the_only(orders, collecting)
    assert finding.message == (
        "Backpressure begins at 'Window(Tumbling)': for 90 % of the time it cannot hand on what it has."
    )


def sink(pre_committed: int = 1, since: int = LONG_AGO, subtask: int = 0) -> TaskFacts:
    commits = OperatorProgress("Sink: files", PendingCommits(pre_committed, since))
    return TaskFacts(SINK, "Sink: files", subtask, 2, progress=TaskProgress(None, (commits,)), emitted_at=NOW)


WRITTEN = "'Sink: files' has written records since 2023-11-14 22:14:00 UTC that are not committed"


@pytest.mark.parametrize(
    ("checkpoints", "message"),
    [
        (CheckpointFacts(), f"{WRITTEN}: that happens when a checkpoint completes, and the job takes none."),
        (CheckpointFacts(10_000), f"{WRITTEN}: no checkpoint has completed so far."),
        (
            CheckpointFacts(10_000, LONG_AGO - 60_000, LONG_AGO + 5_000, LONG_AGO + 1_000, "it expired"),
            f"{WRITTEN}: no checkpoint has completed since 2023-11-14 22:13:00 UTC; one is in progress since "
            "2023-11-14 22:14:05 UTC; the last one that failed, at 2023-11-14 22:14:01 UTC: it expired.",
        ),
        (
            CheckpointFacts(10_000, LONG_AGO + 10_000),
            f"{WRITTEN}, though a checkpoint completed at 2023-11-14 22:14:10 UTC: 3 transactions wait.",
        ),
    ],
)
def test_a_sink_that_waits_for_a_checkpoint(checkpoints: CheckpointFacts, message: str) -> None:
    finding = the_only(sink(1, LONG_AGO + 500), sink(2, LONG_AGO, subtask=1), checkpoints=checkpoints)
    assert finding.message == message
    assert (finding.kind, finding.operator, finding.since) == (FindingKind.COMMITS_WAIT, "Sink: files", LONG_AGO)
    assert finding.advice


def test_the_tasks_at_which_a_checkpoint_hangs_are_named() -> None:
    orders = source(moving("p0", 60_000))
    counts = [replace(windows(channels(orders), None), subtask=n, parallelism=5) for n in range(5)]
    missing: dict[VertexId, list[int]] = {SINK: [0, 1], WINDOW: [1]}
    taken = CheckpointFacts(10_000, missing=missing)
    (finding,) = found(orders, *counts, sink(), checkpoints=taken)
    assert finding.message == (
        f"{WRITTEN}: no checkpoint has completed so far. Barriers came no further than 'Window(Tumbling)' (2/5)."
    )
    missing[WINDOW] = [0, 1, 2, 3, 4]
    (finding,) = found(orders, *counts, sink(), checkpoints=taken)
    assert finding.message.endswith("'Window(Tumbling)' (2/5) and 'Window(Tumbling)' (3/5) and 2 more.")


def test_a_sink_waits_for_the_next_checkpoint_without_complaint() -> None:
    assert found(sink(since=NOW - 12_000), checkpoints=CheckpointFacts(10_000)) == []
    assert found(sink(since=0), checkpoints=CheckpointFacts()) == []


def test_a_source_that_is_paused_for_its_group_and_whom_it_waits_for() -> None:
    paused = AlignmentStatus("g", 8_000, 53_000, LONG_AGO)
    fast = source(moving("p0", 60_000), name="Source: clicks", vertex="clicks", alignment=paused)
    slow = source(moving("p0", 7_000), alignment=AlignmentStatus("g", 8_000), parallelism=2)
    away = source(StreamTime("", 1, 1, 1, idle=True), alignment=AlignmentStatus("g", 8_000), subtask=1, parallelism=2)
    finding = the_only(fast, slow, away)
    assert finding.kind is FindingKind.PAUSED_FOR_ALIGNMENT
    assert finding.message == (
        "'Source: clicks' is paused since 2023-11-14 22:14:00 UTC: it is at event time 1970-01-01 00:01:00.000 UTC, "
        "53.0 s ahead of its alignment group 'g', whose slowest is 'Source: orders' (1/2) with event time "
        "1970-01-01 00:00:07.000 UTC."
    )
    assert "larger drift" in finding.advice
    soon = replace(paused, paused_since=NOW - 100)
    assert found(source(moving("p0", 60_000), alignment=soon), slow) == [], "a pause now and then is how it works"


def test_sources_that_send_nothing() -> None:
    orders = source(moving("p0", 60_000), emitted_at=LONG_AGO)
    count = windows(channels(orders), None)
    assert the_only(orders, count).message == "'Source: orders' has sent no record since 2023-11-14 22:14:00 UTC."
    assert found(replace(orders, emitted_at=0), count) == [], "nothing is known of it yet"
    assert found(replace(orders, subtask=1), replace(orders, emitted_at=NOW), count) == []
    kinds = [finding.kind for finding in found(replace(orders, time_shares=HELD), count)]
    assert kinds == [FindingKind.BACKPRESSURE], "it would if it could"


@pytest.mark.parametrize("state", [JobStatus.CREATED, JobStatus.RESTARTING, JobStatus.CANCELLING])
def test_a_job_that_does_not_run(state: JobStatus) -> None:
    waits = the_only(source(state=ExecutionState.SCHEDULED), state=state, message="waiting for slots: 1 of 2")
    assert waits.message == f"The job does not run, it is {state}: waiting for slots: 1 of 2."


def test_a_slot_whose_functions_do_not_return() -> None:
    orders = source(moving("p0", 60_000), reported_at=LONG_AGO, parallelism=2)
    stuck = replace(windows(channels(orders), None), reported_at=LONG_AGO - 1_000)
    other = replace(orders, subtask=1, slot=SlotKey("", 1), reported_at=NOW)
    finding = the_only(orders, stuck, other)
    assert (finding.kind, finding.since, finding.vertex_id) == (FindingKind.NOT_RESPONDING, LONG_AGO, "")
    assert finding.message == (
        "No report of 'Source: orders' (1/2), 'Window(Tumbling)' since 2023-11-14 22:14:00 UTC: a function in "
        "this slot was called and has not returned."
    )
    never = replace(stuck, reported_at=0, state_since=LONG_AGO)
    assert the_only(never).vertex_id == WINDOW
    assert found(never, report_interval_ms=60_000) == [], "it reports seldom"


def test_tasks_that_have_not_started() -> None:
    orders = source(moving("p0", 1), state=ExecutionState.INITIALIZING, state_since=LONG_AGO, parallelism=2)
    finding = the_only(orders)
    assert finding.message == (
        "'Source: orders' (1/2) does not run yet, it is INITIALIZING since 2023-11-14 22:14:00 UTC."
    )


def test_findings_of_jobs_that_have_ended() -> None:
    def summary(state: JobStatus, *failures: TaskFailure) -> Any:
        return ended(JobDetails(JobId("j"), "n", state, failures=failures, end_time=5), NOW).as_json()["summary"]

    assert summary(JobStatus.FINISHED) == "The job has finished: all its input was processed."
    assert summary(JobStatus.CANCELED) == "The job was cancelled."
    failure = TaskFailure(exception="ValueError: bad", task_name="Map (1/2)")
    assert summary(JobStatus.FAILED, failure).startswith("The job has failed: ValueError: bad")


def test_shares_of_time_are_those_between_two_reports() -> None:
    first = TaskMetrics(busy_ms=1000, backpressured_ms=50, idle_ms=10, paused_ms=0)
    second = TaskMetrics(busy_ms=1100, backpressured_ms=250, idle_ms=10, paused_ms=100)
    assert TimeShares.between(first, second) == TimeShares(25, 50)
    assert TimeShares.between(second, second) == TimeShares()


def test_a_job_that_restarts_again_and_again_is_not_well_between_its_failures() -> None:
    restarts = [(NOW - minutes * 60_000, f"OSError: {minutes}") for minutes in (1, 4, 9)]
    finding = the_only(restarts=restarts)
    assert (finding.kind, finding.since) == (FindingKind.RESTARTS_OFTEN, NOW - 9 * 60_000)
    assert finding.message == (
        "The job has restarted 3 times since 2023-11-14 22:06:00 UTC, the last time at 2023-11-14 22:14:00 UTC: "
        "OSError: 1"
    )
    assert found(restarts=restarts[:2]) == []
    assert found(restarts=restarts, now_ms=NOW + 60_000) == [], "the first was ten minutes ago"
    kinds = [one.kind for one in found(restarts=restarts, state=JobStatus.RESTARTING)]
    assert kinds == [FindingKind.NOT_RUNNING, FindingKind.RESTARTS_OFTEN]
