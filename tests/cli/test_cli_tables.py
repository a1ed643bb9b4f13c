"""Tables for people, of text that others chose, in terminals of any width."""

from __future__ import annotations

import sys

import pytest
from rich.cells import cell_len

from millstream.cli.tables import print_table, terminal_lines


@pytest.mark.parametrize("on_terminal", [False, True])
def test_text_is_shown_as_it_is_and_on_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, on_terminal: bool
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: on_terminal)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    print_table(["KEY", "VALUE"], [["[red]x[/red]", "a\nb"], ["\x1b[2J", "ü \ud800"]])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [["KEY", "VALUE"], ["[red]x[/red]", "a\\nb"], ["\\x1b[2J", "ü", "\\ud800"]]


IDS = [f"{number:032x}" for number in (7, 10**37, 2**127)]
JOBS = [
    [IDS[0], "orders", "RUNNING", "2026-11-19 01:52:57", "1 min 01 s", "0"],
    [IDS[1], "a name of many words that says all of what the job does, and more", "RESTARTING (restart 3 in 1.0 s)",
     "2026-11-19 01:52:57", "3 d 22 h", "3 (ValueError: invalid literal for int() with base 10: 'abc')"],
    [IDS[2], "a" * 90, "FINISHED", "2026-11-19 01:52:57", "90 ms", "0"],
]  # fmt: skip
HEADERS = ["JOB ID", "NAME", "STATE", "STARTED", "DURATION", "RESTARTS"]


@pytest.mark.parametrize("width", [34, 40, 60, 72, 80, 100, 110, 132, 200, 400])
@pytest.mark.parametrize("rows", [JOBS, JOBS[:1], [["名" * 16, "前" * 50, "x", "y", "z", "0"]]])
def test_no_id_is_broken_over_lines(width: int, rows: list[list[str]]) -> None:
    lines = terminal_lines(HEADERS, rows, width, shortens=["NAME"])
    for row in rows:
        assert sum(line.startswith(row[0]) for line in lines) == 1
    for line in lines:
        assert cell_len(line.replace("\x1b[1m", "").replace("\x1b[0m", "")) <= width, line
    words = " ".join(lines).split()
    for word in (word for row in rows for cell in row[2:] for word in cell.split()):
        assert word in words, "no word is broken, nor left out"


def test_names_are_shortened_before_other_cells_wrap() -> None:
    lines = terminal_lines(HEADERS, JOBS[:1] + JOBS[2:], 110, shortens=["NAME"])
    assert len(lines) == 3
    assert "…" in lines[2]
    assert "…" not in terminal_lines(HEADERS, JOBS, 400, shortens=["NAME"])[2]


def test_a_row_that_does_not_fit_is_lines_of_its_own() -> None:
    first, *others = terminal_lines(HEADERS, JOBS[:1], 60, shortens=["NAME"])
    assert first == IDS[0]
    assert [line.split()[0] for line in others] == HEADERS[1:]


def test_at_110_columns_a_job_is_one_line_and_at_80_nothing_of_it_is_lost() -> None:
    shortens = ["NAME", "RESTARTS"]
    assert len(terminal_lines(HEADERS, [JOBS[0], [*JOBS[1][:2], "FAILED", *JOBS[1][3:]]], 110, shortens)) == 3
    narrow = " ".join(" ".join(terminal_lines(HEADERS, JOBS[1:2], 80, shortens)).split())
    assert "…" not in narrow
    assert "3 (ValueError: invalid literal for int() with base 10: 'abc')" in narrow
