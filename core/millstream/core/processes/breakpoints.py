"""`breakpoint()` in a user's function: the debugger on the terminal that a local program was started in.

Slot workers are in sessions of their own and have no standard input, so pdb by itself would end at once. The program
hands them the name of its terminal. One worker at a time has it, from its breakpoint to its `continue`.
`PYTHONBREAKPOINT` works as always: another debugger, or none with 0.
"""

from __future__ import annotations

import fcntl
import inspect
import os
import sys
from typing import TYPE_CHECKING, Any

from millstream.core.errors import MillstreamError
from millstream.core.logs.origins import origin_here
from millstream.core.settings.variables import DEBUGGER_TERMINAL

if TYPE_CHECKING:
    from io import FileIO
    from pdb import Pdb
    from types import FrameType


def hand_down_terminal() -> None:
    """Called in a program that runs jobs itself: the workers that it starts find its terminal, if it has one."""
    for descriptor in (0, 2, 1):
        if os.isatty(descriptor):
            os.environ[DEBUGGER_TERMINAL] = os.ttyname(descriptor)
            return


def debug_on_terminal() -> None:
    """Called once by a process that runs functions of users."""
    sys.breakpointhook = _stop_here


def _stop_here(*arguments: Any, **named: Any) -> Any:
    if os.environ.get("PYTHONBREAKPOINT"):
        return sys.__breakpointhook__(*arguments, **named)
    name = os.environ.get(DEBUGGER_TERMINAL)
    if not name:
        raise MillstreamError(
            "breakpoint() needs a terminal, and this function runs in a slot worker without one: run the job in local"
            " mode from a terminal (python job.py), or set PYTHONBREAKPOINT=0 to go past breakpoints"
        )
    try:
        terminal = open(os.open(name, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC), "r+b", buffering=0)  # noqa: SIM115
    except OSError as error:
        raise MillstreamError(f"breakpoint() cannot open the terminal {name}: {error.strerror}") from error
    return _debugger(terminal).set_trace(frame.f_back if (frame := inspect.currentframe()) is not None else None)


def _debugger(terminal: FileIO) -> Pdb:
    import io
    from pdb import Pdb

    reader = io.TextIOWrapper(io.BufferedReader(terminal), errors="replace")
    writer = io.TextIOWrapper(io.BufferedWriter(terminal), errors="replace", write_through=True)

    class OnTerminal(Pdb):
        """Holds the terminal while it prompts, and until the function continues."""

        def interaction(self, frame: FrameType | None, *event: Any) -> None:
            fcntl.flock(terminal, fcntl.LOCK_EX)  # one stays with its holder
            origin = origin_here()
            self.prompt = f"({origin.task_name}) (Pdb) " if origin is not None and origin.task_name else "(Pdb) "
            super().interaction(frame, *event)

        def set_continue(self) -> None:
            super().set_continue()
            fcntl.flock(terminal, fcntl.LOCK_UN)

        def set_quit(self) -> None:
            super().set_quit()
            fcntl.flock(terminal, fcntl.LOCK_UN)

    return OnTerminal(stdin=reader, stdout=writer, nosigint=True, readrc=True)
