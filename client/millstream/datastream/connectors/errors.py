"""What goes wrong in a connector, with the file, address or option that it happened at."""

from __future__ import annotations

from millstream.core.errors import MillstreamError


class ConnectorError(MillstreamError):
    """A source cannot read, or a sink cannot write."""
