"""Failures of jobs as users read them: the cause in one line, how often it came, and its result. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from millstream.core.jobs.failures import TaskFailure

_RECORD_IN_LINE = 100
_MESSAGE_IN_LINE = 300


def ordinal(number: int) -> str:
    """`1st`, `2nd`, `3rd`, `4th`, `11th`."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def shortened(text: str, length: int) -> str:
    """One line of at most so many letters."""
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[: length - 3]}..."


def cause_line(failure: TaskFailure) -> str:
    """What was raised, where, and at which record."""
    parts = [shortened(failure.exception, _MESSAGE_IN_LINE)]
    if failure.operator_name:
        parts.append(f"in operator '{failure.operator_name}'")
    elif failure.task_name:
        parts.append(f"in task '{failure.task_name}'")
    if failure.record:
        parts.append(f"at the record {shortened(failure.record, _RECORD_IN_LINE)}")
    return ", ".join(parts)


def repetition(failure: TaskFailure) -> str:
    """`the same error, 3rd time`; empty for the first time."""
    return f"the same error, {ordinal(failure.times)} time" if failure.times > 1 else ""


def restart_line(failure: TaskFailure, times: int = 0) -> str:
    """What a root cause led to. `times`: how often it came in a row, also at other records."""
    times = max(times, failure.times)
    again = f"the same error, {ordinal(times)} time" if times > 1 else ""
    cause = f"{again}: {cause_line(failure)}" if again else cause_line(failure)
    return f"restart {failure.restart} in {failure.restart_delay_ms / 1000:.1f} s: {cause}"


def location_lines(failure: TaskFailure) -> list[str]:
    """Where it happened and at which record, below a traceback."""
    lines = []
    if failure.operator_name:
        lines.append(f"  in operator '{failure.operator_name}'")
    if failure.task_name:
        where = f" on {failure.task_manager}" if failure.task_manager else ""
        lines.append(f"  in task '{failure.task_name}'{where}")
    if failure.record:
        lines.append(f"  on the record {failure.record}")
    return lines


def failure_lines(failure: TaskFailure) -> list[str]:
    """All of it: the traceback, an empty line, then where it happened."""
    return [failure.traceback.rstrip() or failure.exception, "", *location_lines(failure)]


def has_traceback(failure: TaskFailure) -> bool:
    """Whether there is more to show than the one line."""
    return bool(failure.traceback.strip()) and failure.traceback.strip() != failure.exception.strip()
