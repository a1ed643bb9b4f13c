"""The program runner, as a process: what it runs, what the program sees, and what its failures look like."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from waiting import DEADLINE

from millstream.client.interruption import INTERRUPTED
from millstream.client.program import main

pytestmark = pytest.mark.process

MODULE = """
import json, sys


def main():
    print(json.dumps(["main", sys.argv]))


def with_arguments(arguments):
    print(json.dumps(["with_arguments", arguments]))


def with_default(arguments=None):
    print(json.dumps(["with_default", arguments]))


def with_anything(*args, **kwargs):
    print(json.dumps(["with_anything", args, kwargs]))


class Jobs:
    @staticmethod
    def nested():
        print("nested")


def planned():
    from millstream.datastream.graph.planning import ProgramPlanned

    try:
        raise ProgramPlanned("done")
    except Exception:
        print("caught by the program")


def leaves():
    sys.exit(7)


def interrupted():
    raise KeyboardInterrupt


def wrong_use():
    from millstream.core.settings.configuration import Configuration

    Configuration({"rest.no": 1})


def chained():
    try:
        int("x")
    except ValueError as error:
        raise RuntimeError("second") from error


not_callable = 3
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "jobmodule.py").write_text(MODULE)
    (tmp_path / "script").mkdir()
    (tmp_path / "script" / "neighbour.py").write_text("VALUE = 5")
    (tmp_path / "script" / "job.py").write_text(
        "import sys, neighbour\nif __name__ == '__main__':\n    print(neighbour.VALUE, sys.argv[1:])\n"
    )
    (tmp_path / "script" / "buggy.py").write_text("def f():\n    return 1 / 0\n\n\nf()\n")
    (tmp_path / "script" / "broken.py").write_text("def f(:\n")
    package = tmp_path / "jobpackage"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text("import sys\nprint('package', __name__, sys.argv[1:])\n")
    return tmp_path


def run(folder: Path, *arguments: str, isolated: bool = False) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *(["-P"] if isolated else []), "-m", "millstream.client.program", *arguments]
    variables = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, text=True, timeout=DEADLINE, check=False
    )


@pytest.mark.parametrize(
    ("entry", "printed"),
    [
        ("jobmodule:main", '["main", ["jobmodule:main", "--flag", "x"]]'),
        ("jobmodule", '["main", ["jobmodule", "--flag", "x"]]'),
        ("jobmodule:with_arguments", '["with_arguments", ["--flag", "x"]]'),
        ("jobmodule:with_default", '["with_default", ["--flag", "x"]]'),
        ("jobmodule:with_anything", '["with_anything", [], {}]'),
        ("jobmodule:Jobs.nested", "nested"),
        ("jobmodule:planned", ""),
    ],
)
def test_entry_points(folder: Path, entry: str, printed: str) -> None:
    done = run(folder, "--entry", entry, "--", "--flag", "x")
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, printed, "")


@pytest.mark.parametrize("isolated", [False, True])
def test_a_file_runs_as_a_script_does(folder: Path, isolated: bool) -> None:
    done = run(folder, "--file", "script/job.py", "--", "-x", isolated=isolated)
    assert (done.returncode, done.stdout, done.stderr) == (0, "5 ['-x']\n", "")


def test_a_module_runs_as_python_dash_m_does(folder: Path) -> None:
    done = run(folder, "--module", "jobpackage", "--", "a")
    assert (done.returncode, done.stdout, done.stderr) == (0, "package __main__ ['a']\n", "")


def test_a_traceback_shows_only_the_users_frames(folder: Path) -> None:
    done = run(folder, "--file", "script/buggy.py")
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1] == "ZeroDivisionError: division by zero"
    frames = [line for line in lines if line.lstrip().startswith("File ")]
    assert len(frames) == 2
    assert all("buggy.py" in frame for frame in frames)


@pytest.mark.parametrize(
    ("arguments", "status", "last_line"),
    [
        (["--entry", "jobmodule:leaves"], 7, ""),
        (["--entry", "jobmodule:interrupted"], 130, ""),
        (["--entry", "jobmodule:wrong_use"], 1, "unknown option 'rest.no'"),
        (["--entry", "jobmodule:chained"], 1, "RuntimeError: second"),
        (["--entry", "jobmodule:absent"], 1, "entry point jobmodule:absent does not exist: no 'absent' in jobmodule; "),
        (["--entry", "jobmodule:not_callable"], 1, "is a int, not a function"),
        (["--entry", "absent.module:main"], 1, "entry point absent.module:main does not exist: no module 'absent'; "),
        (["--file", "absent.py"], 1, "no such file: absent.py"),
        (["--file", "script/broken.py"], 1, "SyntaxError: invalid syntax"),
        (["--module", "absent"], 1, "No module named absent"),
    ],
)
def test_failures(folder: Path, arguments: list[str], status: int, last_line: str) -> None:
    done = run(folder, *arguments)
    assert done.returncode == status
    lines = done.stderr.splitlines()
    assert last_line in (lines[-1] if lines else "")
    assert "runpy" not in done.stderr
    assert "millstream/client" not in done.stderr


SUBMITS = """
from millstream.common import Configuration
from millstream.datastream import StreamExecutionEnvironment

options = {"execution.target": "remote", "dispatcher.rpc.port": 1}
env = StreamExecutionEnvironment.get_execution_environment(Configuration(options))
env.from_collection([1]).print()
env.execute()
"""


def test_a_cluster_that_does_not_take_the_job_is_no_fault_of_the_program(folder: Path) -> None:
    (folder / "submits.py").write_text(SUBMITS)
    done = run(folder, "--file", "submits.py")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("no dispatcher responds at 127.0.0.1:1: ")


def test_causes_are_shown(folder: Path) -> None:
    assert "ValueError: invalid literal" in run(folder, "--entry", "jobmodule:chained").stderr


def test_a_wrong_command_line(folder: Path) -> None:
    assert run(folder).returncode == 2
    assert run(folder, "--entry", "a", "--file", "b").returncode == 2


def test_ctrl_c_while_the_runner_starts_ends_it_quietly(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "job.py"
    program.write_text("print('runs')")
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # as `millstream run` leaves it
    try:
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        assert main(["--file", str(program), "--"]) == INTERRUPTED
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, previous)
    assert capfd.readouterr() == ("", "")
