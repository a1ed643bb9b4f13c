"""What goes wrong in a connector, with the file, address or option that it happened at."""

from __future__ import annotations

from millstream.core.errors import MillstreamError, UnrecoverableError


class ConnectorError(MillstreamError):
    """A source cannot read, or a sink cannot write."""


class MalformedInputError(ConnectorError):
    """A file, or what is left of it, cannot be read at all: `raw` is what there is of it from `offset` on."""

    def __init__(self, path: str, reason: str, offset: int = 0, raw: bytes = b"") -> None:
        super().__init__(f"file source: {path}: {reason}")
        self.path = path
        self.reason = reason
        self.offset = offset
        self.raw = raw


class ChangedInputError(UnrecoverableError):
    """A snapshot holds positions in another input than the program's."""

    def __init__(self, was: str, now: str) -> None:
        super().__init__(
            f"the snapshot was taken of {was}, and the program now has {now}: the splits in the snapshot would be read "
            "as they are, and the change ignored. Restore with what it was before, or give the source another uid and "
            "start with --allowNonRestoredState: then it starts from the beginning"
        )
