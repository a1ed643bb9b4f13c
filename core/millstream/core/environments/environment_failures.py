"""Why a job's environment could not be made, and whether another try may help.

What an artifact is stays the same: an error in it is one that no restart of the job mends. The network, a package index
and what a host has run out of may be better the next time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from millstream.core.errors import MillstreamError, UnrecoverableError

_MAY_PASS = re.compile(
    r"Retrying \(Retry|connection broken|NewConnectionError|ConnectTimeout|ReadTimeout|ProxyError|SSLError"
    r"|ProtocolError|RemoteDisconnected|IncompleteRead|Connection (refused|reset|aborted|timed out)|name resolution"
    r"|Network is unreachable|No route to host|HTTP error (429|5\d\d)|(429|5\d\d) (Server|Client) Error"
    r"|No space left on device|Disk quota exceeded|Cannot allocate memory|MemoryError|Too many open files"
    r"|Read-only file system|Resource temporarily unavailable|Input/output error",
    re.IGNORECASE,
)
_NO_PROGRAM = (FileNotFoundError, PermissionError, NotADirectoryError)


class EnvironmentFailedError(MillstreamError):
    """It could not be made, and may be later. The message is pip's reason, or what else was in the way."""

    keeps_lines = True


class ImpossibleEnvironmentError(EnvironmentFailedError, UnrecoverableError):
    """It cannot be made; the message is pip's reason, or why an artifact cannot be used."""


def failed(text: str, lines: Sequence[str], status: int = 1) -> EnvironmentFailedError:
    """The error for the user, of the kind that follows from the reasons: pip's whole output, and its status."""
    may_pass = status < 0 or any(_MAY_PASS.search(line) for line in lines)
    return (EnvironmentFailedError if may_pass else ImpossibleEnvironmentError)(text)


def not_run(command: str, error: OSError) -> EnvironmentFailedError:
    """The error of a command that could not be started."""
    kind = ImpossibleEnvironmentError if isinstance(error, _NO_PROGRAM) else EnvironmentFailedError
    return kind(f"cannot run {command}: {error.strerror}")
