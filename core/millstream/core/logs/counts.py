"""Counted things in messages."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """`1 job`, `2 jobs`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
