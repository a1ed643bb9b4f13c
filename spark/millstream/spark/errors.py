"""The errors of the batch side."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from millstream.core.errors import MillstreamError


class SavepointWriteError(MillstreamError):
    """A savepoint cannot be written as requested. Nothing of it is left."""


class RowFault(MillstreamError):
    """A row cannot be part of a savepoint: reported by a task to the driver."""


def nearest(name: str, known: Iterable[str]) -> str:
    """What a name that is not there may have meant, and all that there is."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, 1)
    hint = f"did you mean '{close[0]}'? " if close else ""
    return f"{hint}There is {', '.join(names) or 'nothing'}"
