"""Asking a program for its plan instead of running it, as `info` and REST's `/jars/:id/plan` do.

With MILLSTREAM_PLAN_FILE set, the first job that the program executes is written there, and the program stops.
"""

from __future__ import annotations

import os
from pathlib import Path

from millstream.core.jobs.graph import JobGraph
from millstream.core.settings.variables import PLAN_FILE


class ProgramPlanned(BaseException):
    """Stops a program whose plan has been written. No `except Exception` of the program's stands in its way."""


def stop_if_only_planned(graph: JobGraph) -> None:
    """Writes the graph and stops the program when only its plan is wanted; otherwise does nothing."""
    target = os.environ.get(PLAN_FILE)
    if target:
        from millstream.core.wire.contracts import JOB_GRAPH  # here: no program that is run needs it

        Path(target).write_bytes(JOB_GRAPH.to_bytes(graph))
        raise ProgramPlanned(f"the plan of '{graph.name}' was written to {target}")
