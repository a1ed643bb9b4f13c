"""The lines that the streaming grep reads: a pool of log lines, of which one in a hundred matches."""

from __future__ import annotations

import random

PATTERN = "connection reset by peer"
POOL = 10_000
ONE_IN = 100
_WORDS = ("accepted", "request", "from", "client", "session", "order", "payment", "cache", "miss", "retry", "queue")


def make_lines() -> list[str]:
    """About 100 characters each, the same every time. Line 0 matches, and every hundredth after it."""
    source = random.Random(7)
    lines = []
    for number in range(POOL):
        text = " ".join(source.choices(_WORDS, k=9))
        if number % ONE_IN == 0:
            text = f"{text[:30]} {PATTERN} {text[30:40]}"
        lines.append(f"2026-01-01T00:00:{number % 60:02d}Z host-{number % 17} INFO {text}")
    return lines
