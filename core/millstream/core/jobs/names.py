"""User-defined names, which are written to messages and files in UTF-8."""

from __future__ import annotations


def why_unwritable(name: object) -> str:
    """Returns why a text cannot be encoded in UTF-8, such as half of a surrogate pair; empty if it can."""
    if not isinstance(name, str):
        return f"is a text, not {name!r}"
    try:
        name.encode()
    except UnicodeEncodeError as error:
        return (
            f"{name!a} cannot be written: {name[error.start]!a} is half of a surrogate pair, which UTF-8 does not have"
        )
    return ""
