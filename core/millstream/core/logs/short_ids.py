"""Ids in lines of text: the first eight of their 32 digits, which the command line takes in place of the whole id.

JSON has whole ids. In an id that is part of a path or a URI all digits stay.
"""

from __future__ import annotations

import re

LENGTH = 8
_ID = re.compile(r"(?<![\w/.:=-])([0-9a-f]{8})[0-9a-f]{24}(?![\w/.-])")


def short_id(ident: str) -> str:
    """The digits that a line of text has of an id."""
    return ident[:LENGTH]


def with_short_ids(text: str) -> str:
    """The text with each whole id in it shortened."""
    return _ID.sub(r"\1", text)


def is_same(ident: str, other: str) -> bool:
    """Whether both are the same id, either of which may be shortened."""
    return bool(ident and other) and (ident.startswith(other) or other.startswith(ident))
