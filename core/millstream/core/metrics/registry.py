"""The metrics of one service: who knows some of them, and all of them at one moment. Owned by the service's loop.

Nothing is kept up to date for its own sake: figures are gathered on request, so without reporters and without
dashboards, metrics cost a service nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from millstream.core.metrics.model import MetricGroup

log = logging.getLogger(__name__)
Provider = Callable[[], Iterable[MetricGroup]]


class MetricRegistry:
    """Of one service. A provider that fails is left out, and named in the log once."""

    def __init__(self, *providers: Provider) -> None:
        self._providers = list(providers)
        self._failed: set[int] = set()

    def add(self, provider: Provider) -> None:
        """From now on it is called, too: on the service's loop, where it must not block."""
        self._providers.append(provider)

    def read(self) -> list[MetricGroup]:
        """All figures now."""
        found: list[MetricGroup] = []
        for number, provider in enumerate(self._providers):
            try:
                found += provider()
            except Exception:
                if number not in self._failed:
                    self._failed.add(number)
                    log.exception("some metrics cannot be read")
        return found
