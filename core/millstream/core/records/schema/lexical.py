"""What the texts of types share: white space, and how names and descriptions are quoted, as in Flink."""

from __future__ import annotations

from millstream.core.records.schema.errors import InvalidTypeError

_PYTHONS_ONLY = "\x85\xa0\u2007\u202f"  # white space to Python, and part of a name to Java and so to Flink


def is_space(character: str) -> bool:
    """Whether Java counts the character as white space."""
    return character.isspace() and character not in _PYTHONS_ONLY


def quoted_name(name: str) -> str:
    """The name in backticks."""
    return f"`{name.replace('`', '``')}`"


def quoted_text(text: str) -> str:
    """The text in single quotes."""
    return "'{}'".format(text.replace("'", "''"))


def check_text(text: str, what: str) -> None:
    """Refuses what cannot be written as UTF-8, and so neither in JSON nor in Arrow."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidTypeError(f"{what} is no text: it has a half of a surrogate pair in it: {text!r:.100}") from error
