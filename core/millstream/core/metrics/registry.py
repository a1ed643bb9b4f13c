"""The metrics of one service, read from providers. Owned by the service's loop.

Figures are collected only on request, so without reporters and without
dashboards, metrics cost a service nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from millstream.core.metrics.model import MetricGroup

log = logging.getLogger(__name__)
Provider = Callable[[], Iterable[MetricGroup]]


class MetricRegistry:
    """The registry of one service. A provider that fails is skipped, and its error is logged once."""

    def __init__(self, *providers: Provider) -> None:
        self._providers = list(providers)
        self._failed: set[int] = set()

    def add(self, provider: Provider) -> None:
        """Adds a provider, which is called on the service's loop and must not block."""
        self._providers.append(provider)

    def read(self) -> list[MetricGroup]:
        """Reads all figures."""
        found: list[MetricGroup] = []
        for number, provider in enumerate(self._providers):
            try:
                found += provider()
            except Exception:
                if number not in self._failed:
                    self._failed.add(number)
                    log.exception("some metrics cannot be read")
        return found
