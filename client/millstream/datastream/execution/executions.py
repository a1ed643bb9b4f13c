"""Whether the program of this process executed what it built, so that one that never does can be reported.

`millstream run` checks at the program's end. A script that runs by itself, `python job.py`, gets a message at its exit.
"""

from __future__ import annotations

import atexit
import os
import sys
from types import FrameType

from millstream.core.settings.variables import PROGRAM_CONFIGURATION

NEVER_EXECUTED = (
    "the program ended and never called execute(): no job was run. Call env.execute() after the streams are built, or "
    "execute_async() of the environment, or execute_and_collect() of a stream"
)
ONLY_PLANNED = "the program only computed its plan and never called execute(): no job was run"


class Executions:
    """Counts, over all environments of the process."""

    def __init__(self) -> None:
        self.operators = 0
        self.plans = 0
        self.jobs = 0

    def built(self) -> None:
        """An operator was added to an environment."""
        self.operators += 1
        if self.operators == 1 and PROGRAM_CONFIGURATION not in os.environ and _is_script(sys._getframe()):  # noqa: SLF001  # the only way to the caller
            atexit.register(self._at_exit)

    def planned(self) -> None:
        """A plan was computed."""
        self.plans += 1

    def executed(self) -> None:
        """A job is about to be submitted."""
        self.jobs += 1

    def _at_exit(self) -> None:
        if not self.jobs and not self.plans and not hasattr(sys, "last_value"):  # else the exception is message enough
            print(NEVER_EXECUTED, file=sys.stderr)


def _is_script(frame: FrameType | None) -> bool:
    """Whether the first frame that is not ours belongs to a file that Python was started with."""
    while frame is not None and str(frame.f_globals.get("__name__", "")).startswith("millstream."):
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__") == "__main__" and "__file__" in frame.f_globals


EXECUTIONS = Executions()
