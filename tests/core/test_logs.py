"""What processes log and print says where it comes from."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from waiting import DEADLINE

from millstream.core.logs.named_prints import NamedPrints, plain


def test_each_line_that_is_printed_says_where_it_comes_from() -> None:
    raw = io.StringIO()
    where = ["job, map (1/2)"]
    stream = NamedPrints(raw, lambda: where[0])
    print("one", "word", file=stream)
    print("two\nlines", file=stream)
    print("no end", end="", file=stream)
    where[0] = "job, map (2/2)"
    print(" and its rest", file=stream)
    print(file=stream)
    stream.writelines(["a\n", "b\n"])
    plain(stream).write("as it is\n")  # type: ignore[arg-type]  # a stream, as far as anyone prints
    assert raw.getvalue().splitlines() == [
        "[job, map (1/2)] one word",
        "[job, map (1/2)] two",
        "[job, map (1/2)] lines",
        "[job, map (1/2)] no end and its rest",
        "[job, map (2/2)] ",
        "[job, map (2/2)] a",
        "[job, map (2/2)] b",
        "as it is",
    ]
    assert stream.getvalue() == raw.getvalue(), "everything else is the stream's own"
    assert plain(raw) is raw


@pytest.mark.process
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_line_names_the_task_and_ours_are_shown_from_a_level_on(tmp_path: Path, form: str) -> None:
    file = tmp_path / "all.log"
    program = f"""
import logging
from millstream.core.settings.configuration import Configuration
from millstream.core.logs.logs import set_up_logging
set_up_logging("worker", Configuration({{
    "logging.format": {form!r}, "logging.stderr.level": "ERROR", "execution.local.log-file": {str(file)!r}
}}), lambda: "job, map (1/2)")
logging.getLogger("millstream.taskmanager").info("ours")
logging.getLogger("millstream.taskmanager").error("our error")
logging.getLogger("millstreams").info("the user's")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=DEADLINE)
    shown = done.stderr.splitlines()
    assert len(shown) == 2
    assert "our error" in shown[0]
    assert "the user's" in shown[1]
    written = file.read_text().splitlines()
    assert len(written) == 3
    if form == "json":
        assert {json.loads(line)["task"] for line in written} == {"job, map (1/2)"}
    else:
        assert all(" worker [job, map (1/2)] " in line for line in written)
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
