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
    """A file is not there."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "does not exist")

    def __reduce__(self) -> tuple[type[MissingFileError], tuple[str]]:
        return MissingFileError, (self.path,)


class UnusableFileError(SnapshotError, UnrecoverableError):
    """A file is there, but what it holds is not what was written, or makes no sense: that stays so."""


class IncompatibleStateError(SnapshotError, UnrecoverableError):
    """What the program declares cannot be read from what the snapshot holds."""


class UnwritableStateError(SnapshotError, UnrecoverableError):
    """What the program put into a state is not what it declared, or cannot be pickled: it would be put there again."""


def one_line(error: BaseException) -> str:
    """An error of a library as part of one of ours."""
    return " ".join(str(error).split()) or type(error).__name__
