"""Names that others chose, such as a job's, in a line of text."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text within one line, with line ends, control characters and the like escaped."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
