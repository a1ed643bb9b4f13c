"""How records become bytes, with PyFlink's names. Pure."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import Any

from millstream.core.errors import InvalidProgramError


class Encoder:
    """Makes the bytes of a record; PyFlink's name. `Encoder(function)` takes a function that answers str or bytes."""

    def __init__(self, encode: Callable[[Any], str | bytes] = str, charset_name: str = "UTF-8") -> None:
        try:
            codecs.lookup(charset_name)
        except LookupError:
            raise InvalidProgramError(f"unknown character set '{charset_name}'; write it like 'UTF-8'") from None
        self._encode = encode
        self.charset = charset_name

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder:
        """`str(record)` in the character set, a line each."""
        return Encoder(str, charset_name)

    def lines(self, rows: list[Any], to_bytes: Callable[[str], bytes]) -> bytes:
        """The records, each ended by a line feed. `to_bytes` encodes the text of one file from its start on."""
        encode = self._encode
        if encode is str:
            return to_bytes("".join([f"{row}\n" for row in rows]))
        texts = [encode(row) for row in rows]
        return b"".join([t + b"\n" if isinstance(t, bytes) else to_bytes(f"{t}\n") for t in texts])
