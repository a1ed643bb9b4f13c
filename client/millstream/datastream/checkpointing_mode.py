"""`CheckpointingMode`, as in PyFlink."""

from __future__ import annotations

from enum import StrEnum


class CheckpointingMode(StrEnum):
    """What a restored state is the effect of."""

    EXACTLY_ONCE = "EXACTLY_ONCE"  # each record before the checkpoint, once
    AT_LEAST_ONCE = "AT_LEAST_ONCE"  # each of them, some maybe twice; no channel is ever blocked
