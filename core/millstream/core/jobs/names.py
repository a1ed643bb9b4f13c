"""Names that users give: they go into messages and files, all of which are UTF-8."""

from __future__ import annotations


def why_unwritable(name: object) -> str:
    """Why no message or file can hold this text; empty when it can. Half of a surrogate pair is no character."""
    if not isinstance(name, str):
        return f"is a text, not {name!r}"
    try:
        name.encode()
    except UnicodeEncodeError as error:
        return (
            f"{name!a} cannot be written: {name[error.start]!a} is half of a surrogate pair, which UTF-8 does not have"
        )
    return ""
