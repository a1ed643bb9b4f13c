"""Commands that work on Spark, where there is none, and what a terminal shows while there is."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest
from waiting import DEADLINE, wait_until

from millstream.cli.main import main
from millstream.cli.state.spark_progress import stages_on_terminal

COMMANDS = [
    ("bootstrap", "recipe.yaml", "sp"),
    ("rewrite", "recipe.yaml", "sp", "new"),
    ("diff", "--spark", "a", "b"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_without_the_extra_the_message_has_the_command_to_install_it(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert main(["state", *command]) == (2 if command[0] == "diff" else 1)
    output = capsys.readouterr()
    told = "this needs Spark, which is not installed: pip install 'millstream[spark]'"
    assert (output.out, output.err) == ("", f"millstream state {command[0]}: {told}\n")


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_without_java_the_message_names_it(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert main(["state", *command]) != 0
    told = f"Spark needs Java 17 or later, and there is none in JAVA_HOME, {tmp_path}"
    assert capsys.readouterr().err == f"millstream state {command[0]}: {told}\n"
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["state", *command]) != 0
    assert "there is none on the path, and JAVA_HOME is not set" in capsys.readouterr().err


_HELP = """
import json, sys
from millstream.cli.main import main
for command in ("bootstrap", "rewrite", "export", "diff"):
    assert main(["state", command, "--help"]) == 0
print(json.dumps(sorted({"pyspark", "millstream.spark", "pyarrow", "yaml", "pandas"} & set(sys.modules))))
"""


@pytest.mark.process
def test_help_loads_nothing_of_spark() -> None:
    done = subprocess.run([sys.executable, "-c", _HELP], capture_output=True, text=True, check=True, timeout=DEADLINE)
    assert "--master" in done.stdout
    assert json.loads(done.stdout.splitlines()[-1]) == []


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


Stage = namedtuple("Stage", "stageId numTasks numCompletedTasks")


class WorkingSpark:
    """A session of which two stages run."""

    def __init__(self) -> None:
        self.sparkContext = self

    def statusTracker(self) -> WorkingSpark:  # noqa: N802 - as Spark calls it
        return self

    def getActiveStageIds(self) -> list[int]:  # noqa: N802
        return [4, 3, 5]

    def getStageInfo(self, stage: int) -> Any:  # noqa: N802
        return {3: Stage(3, 8, 5), 4: Stage(4, 200, 0)}.get(stage)  # the last one is over meanwhile


def test_a_terminal_shows_the_stages_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    told = "writing: stage 3, 5 of 8 tasks; stage 4, 0 of 200 tasks"
    with stages_on_terminal(WorkingSpark(), "writing", verbose=False):
        wait_until(lambda: told in terminal.getvalue(), "the stages are shown")


def test_nothing_is_shown_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    with stages_on_terminal(WorkingSpark(), "writing", verbose=False):
        pass
    assert capsys.readouterr().err == ""
    with stages_on_terminal(WorkingSpark(), "writing", verbose=True):
        pass
    assert capsys.readouterr().err == "writing\n"
