"""Spark's errors as one line: what went wrong in a task or in a statement, without the JVM's stack."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from millstream.core.errors import MillstreamError

_RAISED = re.compile(r"^(?P<kind>[A-Za-z_][\w.]*): (?P<detail>.+)$")
_CONDITION = re.compile(r"^\[(?P<name>[A-Z0-9_.]+)\] ")
_STATE = re.compile(r" ?SQLSTATE: \w+.*$")


class SparkFailedError(MillstreamError):
    """A job of Spark's failed; the message is its cause."""


@contextlib.contextmanager
def spark_errors() -> Iterator[None]:
    """Errors of Spark inside become ours."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise SparkFailedError(cause_of(str(error))) from error


def cause_of(text: str) -> str:
    """What a task raised, if that is in the text; else Spark's own first line, without its codes."""
    _, traceback, below = text.partition("Traceback (most recent call last):")
    if traceback:
        raised = [found for line in below.splitlines() if (found := _RAISED.match(line)) is not None]
        ours = [found for found in raised if found["kind"].startswith("millstream.")]
        if raised:
            last = (ours or raised)[-1]
            detail = _STATE.sub("", last["detail"])
            return detail if ours else f"{last['kind'].rpartition('.')[2]}: {detail}"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    java = [found["detail"] for line in lines if (found := _RAISED.match(line.removeprefix(": "))) and line[:2] == ": "]
    said = (java or lines or ["Spark gives no reason"])[0]
    return _STATE.sub("", _CONDITION.sub("", said)).strip().rstrip(".;")
