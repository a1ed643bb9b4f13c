"""Events are read back as they were written, and found from the end of files backwards."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from millstream.core.logs.log_events import LogFilter, events_of, parsed
from millstream.core.logs.log_lines import Line, as_json, as_text
from millstream.core.logs.origins import Origin
from millstream.core.logs.recent_events import BLOCK, Piece, chain_of, recent_events
from millstream.core.messages.logs import LogContent

JOB, OTHER, VERTEX = "a" * 32, "c" * 32, "b" * 32
texts = st.text(max_size=20).filter(str.isprintable)
origins = st.builds(Origin, st.just(JOB), texts.map(str.strip)) | st.builds(
    lambda name, subtask, attempt: Origin(JOB, "job", VERTEX, f"{name} ({subtask + 1}/9)", subtask, attempt),
    texts, st.integers(0, 8), st.integers(0, 99),
)  # fmt: skip
lines = st.builds(
    Line, st.integers(0, 2**32).map(lambda ms: ms / 1000), st.sampled_from(["DEBUG", "INFO", "WARNING"]),
    st.just("worker"), st.sampled_from(["a", "b.c", "stdout"]), texts, st.none() | origins,
)  # fmt: skip


def with_short_ids_in(line: Line) -> Line:
    origin = line.origin
    if origin is None:
        return line
    return replace(line, origin=replace(origin, job_id=origin.job_id[:8], vertex_id=origin.vertex_id[:8]))


@given(lines)
def test_a_line_is_read_as_it_was_written(line: Line) -> None:
    assert parsed(as_json(line)) == line
    assert parsed(as_text(line)) == with_short_ids_in(line)


def test_a_line_begins_with_the_operator_and_has_short_ids() -> None:
    origin = Origin("0123456789abcdef" * 2, "orders", "fedcba9876543210" * 2, "Source: In -> map (2/4)", 1, 3)
    whole = "job 0123456789abcdef0123456789abcdef (orders): is at file:///s/0123456789abcdef0123456789abcdef/chk-1"
    ours = as_text(Line(1.0, "INFO", "worker", "millstream.x", whole, origin))
    short = "job 01234567 (orders): is at file:///s/0123456789abcdef0123456789abcdef/chk-1"
    assert ours.partition(" worker ")[2] == (
        f"[Source: In -> map (2/4)#3 (fedcba98) of orders (01234567)] millstream.x: {short}"
    )
    users = Line(1.0, "INFO", "worker", "shop", whole, origin)
    assert as_text(users).endswith(f"shop: {whole}"), "what users log stays as it is"
    assert json.loads(as_json(users)) == {
        "time": 1000, "level": "INFO", "service": "worker", "logger": "shop", "message": whole, "jobName": "orders",
        "job": origin.job_id, "vertex": origin.vertex_id, "task": origin.task_name, "subtask": 1, "attempt": 3,
    }  # fmt: skip


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu", "America/St_Johns"])
def test_times_are_the_same_in_every_zone(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        line = Line(86_400 * 365.25 + 0.125, "INFO", "worker", "a", "b")
        assert parsed(as_text(line)) == line
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("text", ["", "Traceback", '{"a": 1}', "{", "[1, 2]", '{"time": "x"}', "2026-01-31 no event"])
def test_lines_that_do_not_begin_an_event(text: str) -> None:
    assert parsed(text) is None


def test_a_traceback_stays_with_its_event() -> None:
    first = as_text(Line(1.0, "ERROR", "worker", "a", "failed", None, "Traceback\n  File\nValueError"))
    second = as_text(Line(2.0, "INFO", "worker", "a", "on"))
    found = list(events_of(["lost", *first.split("\n"), second]))
    assert [event.lines for event in found] == [tuple(first.split("\n")), (second,)]


TASK = Line(10.0, "INFO", "worker", "a", "x", Origin(JOB, "job", VERTEX, "Source: In -> map (2/2)", 1, 0))


@pytest.mark.parametrize(
    ("wanted", "passes"),
    [
        (LogFilter(), True),
        (LogFilter(job_id=JOB, vertex=VERTEX, subtask=1, level="INFO", since_ms=10_000), True),
        (LogFilter(vertex="source: in"), True),
        (LogFilter(vertex="bbbb"), True),
        (LogFilter(vertex="BBBBBBBBB"), True),
        (LogFilter(vertex="bbb"), False),
        (LogFilter(vertex="b" * 31 + "a"), False),
        (LogFilter(vertex="2/2"), False),
        (LogFilter(vertex="sink"), False),
        (LogFilter(job_id=OTHER), False),
        (LogFilter(subtask=0), False),
        (LogFilter(level="WARNING"), False),
        (LogFilter(since_ms=10_001), False),
    ],
)
def test_filters(wanted: LogFilter, passes: bool) -> None:
    assert wanted.passes(TASK) is passes
    written = parsed(as_text(TASK))
    assert written is not None
    if wanted.vertex != "b" * 31 + "a":  # which differs in a part that the short id omits
        assert wanted.passes(written) is passes


def test_events_of_a_service_about_a_job_belong_to_the_job_but_to_no_task() -> None:
    event_of_service = Line(1.0, "INFO", "jobmanager", "a", f"job {JOB} (x): restart 1")
    assert LogFilter(job_id=JOB).passes(event_of_service)
    read = parsed(as_text(Line(1.0, "INFO", "jobmanager", "millstream.a", event_of_service.message)))
    assert read is not None
    assert read.message == f"job {JOB[:8]} (x): restart 1"
    assert LogFilter(job_id=JOB).passes(read)
    assert not LogFilter(job_id=OTHER).passes(read)
    assert not LogFilter(job_id=JOB, vertex="x").passes(event_of_service)


def found_in(files: dict[str, bytes], wanted: LogFilter, limit: int, continued: bool = True) -> tuple[list[str], int]:
    """The messages, and how many bytes were read for them."""
    search, read = recent_events(chain_of("x.log", list(files)), wanted, limit, continued), 0
    try:
        piece: Piece = next(search)
        while True:
            content = files[piece.name]
            start = max(0, len(content) - piece.length) if piece.offset is None else piece.offset
            part = content[start : start + piece.length]
            read += len(part)
            piece = search.send(LogContent(part, start, len(content)))
    except StopIteration as done:
        return ["\n".join([e.line.message, *e.lines[1:]]) for e in done.value], read


def event(number: int, more: str = "", level: str = "INFO") -> str:
    return as_text(Line(float(number), level, "worker", "a", str(number), None, more)) + "\n"


def test_the_chain_of_a_file() -> None:
    names = ["x.log", "x.log.10", "x.log.2", "x.log.1", "x.log.old", "yx.log", "x.out"]
    assert chain_of("x.log", names) == ["x.log", "x.log.1", "x.log.2", "x.log.10"]


def test_the_last_events_over_rotated_files() -> None:
    whole = "died at once\n" + "".join(event(n, "more\nand more" if n % 3 else "") for n in range(9))
    cut = whole.index(event(4)) + len(event(4)) + len("more\n")  # the rest of its traceback is in the next file
    files = {"x.log.1": whole[:cut].encode(), "x.log": whole[cut:].encode()}
    everything = ["died at once", *(f"{n}\nmore\nand more" if n % 3 else str(n) for n in range(9))]
    for limit in range(1, 10):
        assert found_in(files, LogFilter(), limit)[0] == everything[-limit:]
    assert found_in(files, LogFilter(), 99)[0] == everything
    assert found_in(files, LogFilter(since_ms=7000), 99)[0] == everything[-2:]
    assert found_in(files, LogFilter(), 3, continued=False)[0] == ["6", "7", "8"]


def test_large_files_are_read_no_further_than_needed() -> None:
    long = "".join(event(n, "x" * 1000, "WARNING" if n % 100 == 0 else "INFO") for n in range(5000))
    files = {"x.log": long.encode()}
    messages, read = found_in(files, LogFilter(), 50)
    assert ([m.split("\n")[0] for m in messages], read) == ([str(n) for n in range(4950, 5000)], BLOCK)
    assert [m.split("\n")[0] for m in found_in(files, LogFilter(level="WARNING"), 3)[0]] == ["4700", "4800", "4900"]
    files = {"x.log": (event(0, "y" * 3 * BLOCK) + event(1)).encode()}
    assert [len(m) for m in found_in(files, LogFilter(), 5)[0]] == [2 + 3 * BLOCK, 1]
