"""The metrics that services return."""

from __future__ import annotations

from msgspec import Struct


class ProcessMetrics(Struct, frozen=True):
    """All that a process measures, at this moment."""

    groups: bytes = b""
    """Encoded as `millstream.core.metrics.model` does it."""
