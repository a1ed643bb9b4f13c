"""The metrics that services return."""

from __future__ import annotations

from msgspec import Struct


class ProcessMetrics(Struct, frozen=True):
    """The current metrics of a process."""

    groups: bytes = b""
    """Encoded by `millstream.core.metrics.model`."""
