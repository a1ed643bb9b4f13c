"""The origin of log lines and printed output."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from waiting import DEADLINE

from millstream.core.logs.log_events import events_of, parsed
from millstream.core.logs.log_lines import as_json, as_text
from millstream.core.logs.named_prints import NamedPrints, plain
from millstream.core.logs.origins import (
    Origin,
    for_this_task,
    lines_of,
    origin_here,
    origins_are,
    thread_is_nobodys,
    threads_are_their_starters,
)

JOB, VERTEX = "a" * 32, "b" * 32
TASK = Origin(JOB, "my job", VERTEX, "map (2/2)", 1, 3)
SHORT = replace(TASK, job_id=JOB[:8], vertex_id=VERTEX[:8])
"""As in lines of text."""


def test_printed_lines_are_events_of_their_task_and_lines_of_sinks_stay_unchanged() -> None:
    raw = io.StringIO()
    stream: Any = NamedPrints(raw, "stdout", as_text)
    with lines_of(TASK):
        print("one", "word", file=stream)
        print("two\nlines", file=stream)
        print("no end", end="", file=stream)
        print(" and its rest", file=stream)
        print(file=stream)
        stream.writelines(["a\n", "b\r\n"])
        print("20 %\r40 %", end="\r", file=stream)
    plain(stream).write("as it is\n")
    stream.write("never ended")
    assert "never" not in raw.getvalue()
    stream.end_lines()
    lines = [parsed(line) for line in raw.getvalue().splitlines()]
    assert [line.message if line else None for line in lines] == [
        "one word", "two", "lines", "no end and its rest", "", "a", "b", "20 %", "40 %", None, "never ended",
    ]  # fmt: skip
    assert all(line.origin == SHORT and line.logger == "stdout" for line in lines[:9] if line)
    assert stream.getvalue() == raw.getvalue(), "everything else is the stream's own"
    assert plain(raw) is raw


def test_lines_that_two_threads_print_do_not_mix() -> None:
    raw = io.StringIO()
    stream: Any = NamedPrints(raw, "stderr", as_json)
    stream.write("of the first")
    other = threading.Thread(target=lambda: print("of the second", file=stream))
    other.start()
    other.join(DEADLINE)
    stream.write(", and its end\n")
    assert [json.loads(line)["message"] for line in raw.getvalue().splitlines()] == [
        "of the second", "of the first, and its end",
    ]  # fmt: skip


def test_a_thread_that_a_task_starts_works_for_that_task() -> None:
    seen: list[Origin | None] = []
    origins_are(lambda: None)
    with lines_of(TASK):
        thread = threading.Thread(target=for_this_task(lambda: seen.append(origin_here())))
    thread.start()
    thread.join(DEADLINE)
    assert (seen, origin_here()) == ([TASK], None)


def test_threads_of_functions_belong_to_their_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading.Thread, "start", threading.Thread.start)  # to be put back
    threads_are_their_starters()
    seen: dict[str, Origin | None] = {}
    origins_are(lambda: None)

    class Inner(threading.Thread):
        def run(self) -> None:
            seen["inner"] = origin_here()

    def outer() -> None:
        inner = Inner()
        inner.start()
        inner.join(DEADLINE)
        seen["outer"] = origin_here()

    def note(name: str) -> None:
        seen[name] = origin_here()

    with ThreadPoolExecutor(1) as pool, ThreadPoolExecutor(1, "", thread_is_nobodys) as ours:
        with lines_of(TASK):
            thread = threading.Thread(target=outer)
            thread.start()
            for executor, name in ((pool, "pool"), (ours, "ours")):
                executor.submit(note, name).result(DEADLINE)
        with lines_of(Origin(JOB, "my job")):
            between = threading.Thread(target=note, args=("between tasks",))
            between.start()
        for started in (thread, between):
            started.join(DEADLINE)
    assert seen == {"inner": TASK, "outer": TASK, "pool": TASK, "ours": None, "between tasks": None}


@pytest.mark.process
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_line_names_the_task_and_ours_are_shown_from_a_level_on(tmp_path: Path, form: str) -> None:
    file = tmp_path / "all.log"
    program = f"""
import logging
from millstream.core.settings.configuration import Configuration
from millstream.core.logs.logs import set_up_logging
from millstream.core.logs.origins import Origin
set_up_logging("worker", Configuration({{
    "logging.format": {form!r}, "logging.stderr.level": "ERROR", "execution.local.log-file": {str(file)!r}
}}), lambda: Origin("{JOB}", "my job", "{VERTEX}", "map (2/2)", 1, 3))
logging.getLogger("millstream.taskmanager").info("ours")
logging.getLogger("millstream.taskmanager").error("our error")
try:
    1 / 0
except ZeroDivisionError:
    logging.getLogger("millstreams").exception("the user's\\nerror")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=DEADLINE)
    shown, written = list(events_of(done.stderr.splitlines())), list(events_of(file.read_text().splitlines()))
    assert [event.line.message.split("\n")[0] for event in shown] == ["our error", "the user's"]
    assert [event.line.level for event in written] == ["INFO", "ERROR", "ERROR"]
    origin = TASK if form == "json" else SHORT
    assert all(event.line.origin == origin and event.line.service == "worker" for event in written)
    failed = shown[1]
    assert len(failed.lines) == 1 if form == "json" else len(failed.lines) > 4
    assert "ZeroDivisionError: division by zero" in (failed.line.more or failed.lines[-1])
    assert logging.getLogger("millstream").level == logging.NOTSET


@pytest.mark.process
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["our info", "function info"]),
        ({"logging.level": "ERROR"}, []),
        ({"python.logging.default.level": "DEBUG"}, ["our info", "function debug", "function info"]),
        ({"python.logging.default.level": "TRACE"}, ["our info", "function debug", "function info"]),
        ({"python.logging.default.level": "OFF"}, ["our info"]),
        ({"logging.level": "ERROR", "python.logging.default.level": "INFO"}, ["function info"]),
        ({"logging.level": "DEBUG", "python.logging.default.level": "WARN"}, ["our debug", "our info"]),
        ({"python.logging.level.overrides": "job:DEBUG"}, ["our info", "function debug", "function info"]),
        ({"python.logging.level.overrides": "job: debug , job.functions: WARN"}, ["our info"]),
        (
            {"python.logging.level.overrides": {"millstream.taskmanager": "DEBUG", "job": {"functions": "off"}}},
            ["our debug", "our info"],
        ),
    ],
)
def test_functions_log_at_a_level_of_their_own(tmp_path: Path, options: dict[str, Any], expected: list[str]) -> None:
    file = tmp_path / "all.log"
    program = f"""
import logging
from millstream.core.settings.configuration import Configuration
from millstream.core.logs.logs import set_up_logging
set_up_logging("worker", Configuration({{"execution.local.log-file": {str(file)!r}, **{options!r}}}))
for level in ("debug", "info"):
    getattr(logging.getLogger("millstream.taskmanager"), level)(f"our {{level}}")
    getattr(logging.getLogger("job.functions"), level)(f"function {{level}}")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=DEADLINE)
    written = file.read_text() if file.exists() else ""
    for shown in (done.stderr, written):
        assert sorted(line.rsplit(": ", 1)[1] for line in shown.splitlines()) == sorted(expected)
