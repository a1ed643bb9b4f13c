"""What goes wrong in a connector, with the file, address or option that it happened at."""

from __future__ import annotations

from millstream.core.errors import MillstreamError


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
