"""Moments as users type them: so long ago, or a date and time of this host's zone."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime

import click

from millstream.core.errors import ConfigurationError
from millstream.core.settings.configuration import parse_duration


def moment_since(text: str, now: Callable[[], float] = time.time) -> int:
    """Milliseconds since 1970. Raises UsageError for what is neither."""
    try:
        return max(0, round(datetime.fromisoformat(text.strip()).timestamp() * 1000))
    except (ValueError, OverflowError):
        pass
    try:
        return max(0, round((now() - parse_duration(text)) * 1000))
    except (ValueError, ConfigurationError) as error:
        raise click.UsageError(f"--since '{text}': write it as '10 min', '2 h', or as 2026-01-31 12:00") from error
