"""`TimeDomain`: whose clock a timer follows."""

from __future__ import annotations

from enum import Enum


class TimeDomain(Enum):
    """Of a timer that fires."""

    EVENT_TIME = 0
    PROCESSING_TIME = 1
