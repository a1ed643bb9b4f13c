"""Runs a user's program in the process that the command line or the dispatcher started for it.

    python -m millstream.client.program --entry pkg.module:main -- arguments
    python -m millstream.client.program --file job.py -- arguments
    python -m millstream.client.program --module pkg.module -- arguments
    python -m millstream.client.program --entry pkg.module:main --arguments DESCRIPTOR

The process is in the job's own environment. How the program's jobs are to be run is in environment variables that the
API and its executor read. The exit status is 0 when the program returned or was only to be planned, and 1 when it was
to run jobs and executed none; an exception is shown as the traceback of the user's own frames, with status 1, and a
cluster that does not take or finish the job as one message. A program that fails after it has submitted jobs that it
does not wait for (`run -d`) has done what it was run for: they run, and a caller that took its end for a failure and
tried again would run them twice. So the status is 0, and what went wrong is shown. A program that the dispatcher runs
ends with it; there the dispatcher decides what a failure is, and gets the real status.

With MILLSTREAM_STATES_FILE set as well as the file for the plan, the states that the planned job declares are written
there, for which its functions are opened.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import os
import runpy
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import millstream
from millstream.client.interruption import INTERRUPTED
from millstream.core.environments.artifacts import ENTRY_POINT_GROUP, entry_points_text
from millstream.core.errors import InvalidProgramError, JobExecutionError, SubmissionError, UnreachableError
from millstream.core.processes.control_pipe import follow_parent
from millstream.core.processes.handed_down import take_up
from millstream.core.settings.variables import (
    PARENT_FD,
    PLAN_FILE,
    PROGRAM_CONFIGURATION,
    STATES_FILE,
    SUBMITTED_FILE,
    VERBOSE,
)
from millstream.datastream.execution.detached import detached_submissions
from millstream.datastream.execution.executions import EXECUTIONS, NEVER_EXECUTED, ONLY_PLANNED
from millstream.datastream.graph.planning import ProgramPlanned

_ASKED_ELSEWHERE = {PLAN_FILE, SUBMITTED_FILE}
"""Set by those who start the program for its plan or its job's id, and report themselves what is missing."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs what the arguments name. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="millstream.client.program", allow_abbrev=False)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--entry", metavar="PKG.MODULE:CALLABLE")
    what.add_argument("--file", metavar="JOB.PY")
    what.add_argument("--module", metavar="PKG.MODULE")
    parser.add_argument("--arguments", dest="handed_down", metavar="DESCRIPTOR")
    parser.add_argument("arguments", nargs="*")
    options = parser.parse_args(argv)
    if parent := os.environ.pop(PARENT_FD, ""):
        follow_parent(int(parent))
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # Ctrl-C waits while all of the above is imported
        if options.handed_down is not None:
            options.arguments = take_up(options.handed_down)
        if options.entry is not None:
            run_entry(options.entry, options.arguments)
        elif options.file is not None:
            run_file(options.file, options.arguments)
        else:
            run_module(options.module, options.arguments)
    except ProgramPlanned:
        pass
    except KeyboardInterrupt as interrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # once more ends what is left to do, without a traceback
        if interrupt.args:
            print(interrupt, file=sys.stderr)
        return INTERRUPTED
    except SystemExit as end:
        if end.code in (None, 0) and EXECUTIONS.operators:  # `sys.exit(main())`, and not what `--help` ends with
            return _status_of_end()
        if end.code in (None, 0) or not detached_submissions():
            raise
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return _failed(end.code if isinstance(end.code, int) else 1)
    except JobExecutionError as error:
        print(error.shown, file=sys.stderr)
        return _failed(1)
    except (SubmissionError, UnreachableError) as error:
        print(error, file=sys.stderr)
        return _failed(1)
    except InvalidProgramError as error:
        if not _user_frames(error.__traceback__):
            print(error, file=sys.stderr)
            return _failed(1)
        sys.stderr.write(format_user_traceback(error))
        return _failed(1)
    except Exception as error:
        sys.stderr.write(format_user_traceback(error))
        return _failed(1)
    _write_states()
    return _status_of_end()


def _status_of_end() -> int:
    """Of a program that ended in order, as `millstream run` returns it. A program that ran no job gets a message."""
    if PROGRAM_CONFIGURATION not in os.environ or _ASKED_ELSEWHERE & os.environ.keys():
        return 0
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()  # as Python does at its end: it may be the one that executes
    if EXECUTIONS.jobs:
        return 0
    print(ONLY_PLANNED if EXECUTIONS.plans else NEVER_EXECUTED, file=sys.stderr)
    return 0 if EXECUTIONS.plans else 1


def _failed(status: int) -> int:
    """The exit status of a program that failed, whose reason was shown."""
    submitted = detached_submissions()
    if not submitted or os.environ.get(SUBMITTED_FILE):
        return status
    print(
        f"The program failed after it had submitted {' and '.join(submitted)}: what it submitted keeps running, "
        "and running it again would submit it again",
        file=sys.stderr,
    )
    return 0


def _write_states() -> None:
    """Opens the functions of the job that was planned and writes what they declare, if that is wanted."""
    target, planned = os.environ.get(STATES_FILE), os.environ.get(PLAN_FILE)
    if not target or not planned or not Path(planned).exists():
        return
    from millstream.client.state_probe import declared_operators
    from millstream.core.snapshot.metadata.program_json import program_to_json
    from millstream.core.wire.contracts import JOB_GRAPH

    def failed(error: BaseException) -> None:
        if os.environ.get(VERBOSE):
            sys.stderr.write(format_user_traceback(error))

    graph = JOB_GRAPH.from_bytes(Path(planned).read_bytes())
    Path(target).write_bytes(program_to_json(declared_operators(graph, failed)))


def run_entry(entry: str, arguments: Sequence[str]) -> None:
    """Calls `pkg.module:callable`, with the list of arguments when it takes a parameter."""
    module_name, _, attribute = entry.partition(":")
    sys.argv = [entry, *arguments]
    try:
        target: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # a module that the program imports
        raise _no_entry(entry, f"no module '{error.name}'") from None
    for name in (attribute or "main").split("."):
        try:
            target = getattr(target, name)
        except AttributeError:
            raise _no_entry(entry, f"no '{name}' in {module_name}") from None
    if not callable(target):
        raise InvalidProgramError(f"the entry point {entry} is a {type(target).__name__}, not a function")
    if _takes_arguments(target):
        target(list(arguments))
    else:
        target()


def _no_entry(entry: str, reason: str) -> InvalidProgramError:
    from importlib.metadata import entry_points

    known = {point.name: point.value for point in entry_points(group=ENTRY_POINT_GROUP)}
    return InvalidProgramError(f"the entry point {entry} does not exist: {reason}; {entry_points_text(known)}")


def run_file(path: str, arguments: Sequence[str]) -> None:
    """Runs a script as `python job.py` does: as `__main__`, with its folder first on the import path."""
    if not Path(path).is_file():
        raise InvalidProgramError(f"no such file: {path}")
    sys.argv = [path, *arguments]
    sys.path[0 : 0 if sys.flags.safe_path else 1] = [str(Path(path).resolve().parent)]
    runpy.run_path(os.path.abspath(path), run_name="__main__")  # as Python itself does, whatever folder is worked in


def run_module(name: str, arguments: Sequence[str]) -> None:
    """Runs a module as `python -m` does."""
    sys.argv = [name, *arguments]
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _takes_arguments(target: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)


def format_user_traceback(error: BaseException) -> str:
    """The traceback with the frames of the user's code and of libraries, without Millstream's and the runner's."""
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        current = pending.pop()
        if current is not None and id(current) not in seen:
            seen.add(id(current))
            current.__traceback__ = _user_frames(current.__traceback__)
            pending += [current.__cause__, current.__context__]
            pending += current.exceptions if isinstance(current, BaseExceptionGroup) else []
    return "".join(traceback.format_exception(error))


def _user_frames(trace: TracebackType | None) -> TracebackType | None:
    kept: list[TracebackType] = []
    while trace is not None:
        if not _is_framework(trace.tb_frame):
            kept.append(trace)
        trace = trace.tb_next
    chain: TracebackType | None = None
    for link in reversed(kept):
        chain = TracebackType(chain, link.tb_frame, link.tb_lasti, link.tb_lineno)
    return chain


_FRAMEWORK_FOLDERS = tuple(os.path.join(os.path.abspath(folder), "") for folder in millstream.__path__)
_RUNNER_MODULES = {"runpy", "importlib", "importlib._bootstrap", "importlib._bootstrap_external"}


def _is_framework(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    if file.startswith("<frozen ") and file[len("<frozen ") : -1] in _RUNNER_MODULES:
        return True
    return frame.f_globals.get("__name__") in _RUNNER_MODULES or os.path.abspath(file).startswith(_FRAMEWORK_FOLDERS)


if __name__ == "__main__":
    sys.exit(main())
