"""Failures to build a job's environment, and whether another attempt may succeed.

Artifacts do not change, so a restart of the job does not resolve their errors. The network, a package index or
exhausted resources of a host may recover.
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
    """The environment could not be built, but another attempt may succeed. The message is the reason, such as pip's."""

    keeps_lines = True


class ImpossibleEnvironmentError(EnvironmentFailedError, UnrecoverableError):
    """The environment cannot be built; the message is pip's reason, or why an artifact cannot be used."""


def failed(text: str, lines: Sequence[str], status: int = 1) -> EnvironmentFailedError:
    """Returns the error, whose class depends on pip's output and status."""
    may_pass = status < 0 or any(_MAY_PASS.search(line) for line in lines)
    return (EnvironmentFailedError if may_pass else ImpossibleEnvironmentError)(text)


def not_run(command: str, error: OSError) -> EnvironmentFailedError:
    """Returns the error of a command that could not be started."""
    kind = ImpossibleEnvironmentError if isinstance(error, _NO_PROGRAM) else EnvironmentFailedError
    return kind(f"cannot run {command}: {error.strerror}")
