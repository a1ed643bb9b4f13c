r"""Where the records of CSV text begin and end, as Arrow's parser sees them.

A quote counts only at the beginning of a value; inside, two of them are one; behind the closing one the value continues
as if it had not been quoted. A record ends at `\n`, `\r\n` or `\r` outside of quotes. Only whole blocks of records are
handed to Arrow, so that a record that it refuses can be found again by its bytes.
"""

from __future__ import annotations

import re


class CsvRecords:
    """For one delimiter, one quote and one character that escapes another, all ASCII; the last two may be None."""

    def __init__(self, delimiter: str, quote: str | None, escape: str | None = None) -> None:
        e = "" if escape is None else re.escape(escape)
        escaped = "" if escape is None else rf"|{e}[\s\S]"
        record = rf"(?:[^\r\n{e}]++{escaped})*+"
        if quote is not None:
            q, begins = re.escape(quote), rf"(?:(?<=[{re.escape(delimiter)}\r\n])|\A)"
            quoted = rf"{begins}{q}(?:[^{q}{e}]++|{q}{q}{escaped})*+{q}"
            record = rf"(?:[^{q}\r\n{e}]++{escaped}|{quoted}|(?!{begins}){q})*+"
            self._plain = re.compile(rf"(?:[^{q}]*+{quoted})*+".encode())
        self._quote = None if quote is None else quote.encode()
        self._escape = None if escape is None else escape.encode()
        self._whole = re.compile(rf"(?:{record}(?:\n|\r\n|\r(?=[^\n])))*+".encode())
        self._one = re.compile(rf"({record})(?:\r\n|\n|\r|\Z)".encode())

    def end(self, buffer: bytes) -> int:
        """Behind the last record that is whole; 0 when there is none. A carriage return at the end is no end yet."""
        if self._escape is not None and self._escape in buffer:
            found = self._whole.match(buffer)
            return found.end() if found else 0
        if self._quote is None or self._quote not in buffer:
            return buffer.rfind(b"\n") + 1 or buffer.rfind(b"\r", 0, -1) + 1
        # Mostly the last line end is none inside of quotes. To see that takes 1 ms for 1 MB, to look for it 10 ms.
        likely = buffer.rfind(b"\n") + 1
        quoted = self._plain.match(buffer, 0, likely)
        if likely and quoted and self._quote not in buffer[quoted.end() : likely]:
            return likely
        found = self._whole.match(buffer)
        return found.end() if found else 0

    def split(self, block: bytes) -> list[tuple[int, int]]:
        """Where the records begin and end, with their line ends; empty lines are none."""
        found: list[tuple[int, int]] = []
        at = 0
        while at < len(block):
            record = self._one.match(block, at)
            end = len(block) if record is None else record.end()
            if record is None or record.group(1):
                found.append((at, end))
            at = end
        return found

    def first_line_end(self, buffer: bytes) -> int:
        """Behind the first line, whatever is quoted in it; 0 when it is not whole."""
        found = re.search(rb"\r\n|\n|\r(?=[^\n])", buffer)
        return found.end() if found else 0
