"""Character sets that are decoded before a file is cut: what cannot be decoded is marked, and the text continues.

The mark is half of a surrogate pair, which no decoded text has.
"""

from __future__ import annotations

import codecs

from millstream.core.errors import InvalidProgramError

MARK = "millstream.mark"
"""The name of the error handler, for decoders."""
MARKER = "\udcff"
"""What stands in the place of bytes that cannot be decoded."""


def checked_charset(charset: str) -> tuple[str, bool]:
    """Its one name, and whether files in it can be cut at the bytes of line ends."""
    try:
        name = codecs.lookup(charset).name
        return name, "\r\n".encode(name) == b"\r\n"
    except (LookupError, TypeError, UnicodeError):
        raise InvalidProgramError(f"unknown character set '{charset}'; write it like 'UTF-8'") from None


def _marked(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return MARKER, error.end


codecs.register_error(MARK, _marked)
