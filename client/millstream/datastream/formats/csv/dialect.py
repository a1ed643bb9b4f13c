"""How the fields of a CSV record stand in its text: delimiters, quotes, escapes, and what stands for None. Pure.

Text is put in quotes when it might be taken for something else, by the same rule as in Java (Jackson): when it is
longer than 24 characters, or has one that does not come behind all special ones. Text that equals the null literal is
always in quotes, so that it is not None when it is read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from millstream.core.errors import InvalidProgramError

_LONG = 24  # characters, after which Jackson looks no further
_UNESCAPED = {"n": "\n", "r": "\r", "t": "\t", "0": "\0"}


class CsvError(ValueError):
    """A record that is none, or that cannot be written."""


@dataclass(frozen=True)
class Dialect:
    """One way to write CSV; without a null literal, no value is None."""

    delimiter: str = ","
    quote: str | None = '"'
    escape: str | None = None
    null_literal: str | None = ""
    line_separator: str = "\n"

    def __post_init__(self) -> None:
        named = (("column separator", self.delimiter), ("quote", self.quote), ("escape character", self.escape))
        for what, character in named:
            if character is not None and (len(character) != 1 or not character.isascii() or character in "\r\n"):
                raise InvalidProgramError(f"a CSV {what} is one ASCII character and no line end, got {character!r}")
        characters = [character for _, character in named if character is not None]
        if len(set(characters)) != len(characters):
            raise InvalidProgramError(f"CSV cannot have one character for two things: {' '.join(characters)}")
        if self.line_separator not in ("\n", "\r", "\r\n", ""):
            raise InvalidProgramError(f"a CSV line ends with \\n, \\r or \\r\\n, not with {self.line_separator!r}")

    @cached_property
    def _field(self) -> re.Pattern[str]:
        d, e = re.escape(self.delimiter), "" if self.escape is None else re.escape(self.escape)
        escaped = "" if self.escape is None else rf"|{e}."
        plain = rf"(?P<plain>(?:[^{d}{e}]++{escaped})*+)"
        if self.quote is None:
            return re.compile(rf"{plain}(?P<more>{d}|\Z)", re.DOTALL)
        q = re.escape(self.quote)
        quoted = rf"{q}(?P<quoted>(?:[^{q}{e}]++|{q}{q}{escaped})*+){q}"
        return re.compile(rf"(?:{quoted}|(?!{q}){plain})(?P<more>{d}|\Z)", re.DOTALL)

    def fields(self, record: str) -> list[str | None]:
        """The values of a record's text, which has no line end."""
        values: list[str | None] = []
        at, more, null = 0, True, self.null_literal
        quote, escape = self.quote, self.escape
        while more:
            found = self._field.match(record, at)
            if found is None:
                raise CsvError(f"a quote that does not end, or continues behind its end, in value {len(values) + 1}")
            at, more = found.end(), bool(found["more"])
            text: str | None
            if quote is not None and (inside := found["quoted"]) is not None:
                text = inside if escape is not None else inside.replace(quote + quote, quote)
                if escape is not None and (quote in inside or escape in inside):
                    text = self._unescaped(inside, quote)
            else:
                plain = found["plain"]
                text = None if plain == null else plain
                if escape is not None and escape in plain:
                    text = self._unescaped(plain, None)
            values.append(text)
        return values

    def _unescaped(self, text: str, quote: str | None) -> str:
        assert self.escape is not None, "there is something to take out"
        e = re.escape(self.escape)
        doubled = "" if quote is None else rf"|{re.escape(quote)}(?P<quote>{re.escape(quote)})"
        pattern = re.compile(rf"{e}(?P<escaped>.){doubled}", re.DOTALL)
        return pattern.sub(lambda found: _UNESCAPED.get(found[1], found[1]) if found[1] else found[2], text)

    @cached_property
    def _suspicious(self) -> re.Pattern[str]:
        """A character that is special, or comes before one that is."""
        highest = max(map(ord, [self.delimiter, self.quote or "\n", *self.line_separator, "\n", "\r"]))
        escape = "" if self.escape is None else re.escape(self.escape)
        return re.compile(rf"[\x00-{re.escape(chr(highest))}{escape}]")

    def text(self, value: str) -> str:
        """Text as a value."""
        is_null = value == self.null_literal
        if self.quote is None:
            return self._without_quotes(value, is_null)
        if not is_null and len(value) <= _LONG and not self._suspicious.search(value):
            return value
        doubled = value if self.escape is None else value.replace(self.escape, self.escape * 2)
        return f"{self.quote}{doubled.replace(self.quote, self.quote * 2)}{self.quote}"

    def _without_quotes(self, value: str, is_null: bool) -> str:
        if is_null:
            raise CsvError(f"{value!r:.100} would be read as None, and there are no quotes to distinguish it")
        special = [character for character in (self.delimiter, "\n", "\r", self.escape) if character]
        if not any(character in value for character in special):
            return value
        if self.escape is None:
            raise CsvError(f"{value!r:.100} has a delimiter or a line end in it, and there are no quotes")
        return "".join(self.escape + c if c in special else c for c in value)

    def bare(self, value: str) -> str:
        """A number, or anything else that is in quotes only when it has to be."""
        special = (self.delimiter, self.quote, self.escape)
        if value == self.null_literal or any(character and character in value for character in special):
            return self.text(value)
        return value

    def none(self) -> str:
        """What is written for None."""
        if self.null_literal is None:
            raise CsvError("None, and there is no null literal to write for it")
        return self.null_literal
