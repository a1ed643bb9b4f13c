"""The errors of snapshots: which file or setting is wrong, and why.

A file that is missing, or that storage does not give out, may be there later. What is wrong for good is unrecoverable.
"""

from __future__ import annotations

from millstream.core.errors import MillstreamError, UnrecoverableError


class SnapshotError(MillstreamError):
    """A snapshot, or one of its files, cannot be written or used. The snapshot is left as it was."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class MissingFileError(SnapshotError):
    """A file does not exist."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "does not exist")

    def __reduce__(self) -> tuple[type[MissingFileError], tuple[str]]:
        return MissingFileError, (self.path,)


class UnusableFileError(SnapshotError, UnrecoverableError):
    """A file exists, but is damaged or not valid; reading it again would not help."""


class IncompatibleStateError(SnapshotError, UnrecoverableError):
    """The types that the program declares cannot be read from the snapshot."""


class UnwritableStateError(SnapshotError, UnrecoverableError):
    """A value in a state is not of its declared type, or cannot be pickled; a restart would not help."""


def one_line(error: BaseException) -> str:
    """Formats an error of a library for a message."""
    return " ".join(str(error).split()) or type(error).__name__
