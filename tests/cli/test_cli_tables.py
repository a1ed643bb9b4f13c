"""Tables for people, of text that others chose."""

from __future__ import annotations

import sys

import pytest

from millstream.cli.tables import print_table


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
