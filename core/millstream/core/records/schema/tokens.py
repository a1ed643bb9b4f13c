"""The words of a type's text, as Flink's parser of types splits it.

Names end only at white space and at `<>(),.`: a quote inside an unquoted name is part of it. Keywords are those of
Flink, in any case; a name that is one has to be written in backticks.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from millstream.core.records.schema.errors import syntax_error
from millstream.core.records.schema.lexical import is_space

_MARKS = "<>(),."
_DIGITS = "0123456789"

KEYWORDS = frozenset({
    "CHAR", "VARCHAR", "STRING", "BOOLEAN", "BINARY", "VARBINARY", "BYTES", "DECIMAL", "NUMERIC", "DEC", "TINYINT",
    "SMALLINT", "INT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "PRECISION", "DATE", "TIME", "WITH", "WITHOUT",
    "LOCAL", "ZONE", "TIMESTAMP", "TIMESTAMP_LTZ", "INTERVAL", "YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND",
    "TO", "ARRAY", "MULTISET", "MAP", "ROW", "NULL", "RAW", "LEGACY", "NOT", "DESCRIPTOR", "STRUCTURED", "VARIANT",
    "BITMAP",
})  # fmt: skip


class TokenKind(Enum):
    """What a word is; the values are what errors call it."""

    MARK = "a mark"
    TEXT = "a text in single quotes"
    INTEGER = "an integer"
    KEYWORD = "a keyword"
    NAME = "a name"
    END = "the end of the text"


@dataclass(frozen=True, slots=True)
class Token:
    """One word: a keyword in capitals, a name or a text without its quotes. `start` is its offset."""

    kind: TokenKind
    value: str
    start: int

    def is_keyword(self, *keywords: str) -> bool:
        """Whether it is one of these keywords."""
        return self.kind is TokenKind.KEYWORD and self.value in keywords

    def is_mark(self, marks: str) -> bool:
        """Whether it is one of these marks."""
        return self.kind is TokenKind.MARK and self.value in marks

    def __str__(self) -> str:
        return self.kind.value if self.kind is TokenKind.END else f"'{self.value}'"


def tokenized(text: str) -> list[Token]:
    """Returns the words of the text, and its end as the last one."""
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        character, start = text[at], at
        if is_space(character):
            at += 1
        elif character in _MARKS:
            tokens.append(Token(TokenKind.MARK, character, start))
            at += 1
        elif character in "'`":
            value, at = _quoted(text, start)
            tokens.append(Token(TokenKind.TEXT if character == "'" else TokenKind.NAME, value, start))
        elif character in _DIGITS:
            while at < len(text) and text[at] in _DIGITS:
                at += 1
            tokens.append(Token(TokenKind.INTEGER, text[start:at], start))
        else:
            while at < len(text) and text[at] not in _MARKS and not is_space(text[at]):
                at += 1
            word = text[start:at]
            keyword = word.upper() in KEYWORDS
            tokens.append(
                Token(TokenKind.KEYWORD, word.upper(), start) if keyword else Token(TokenKind.NAME, word, start)
            )
    return [*tokens, Token(TokenKind.END, "", len(text))]


def _quoted(text: str, start: int) -> tuple[str, int]:
    """What is in quotes, where a quote is written twice, and the offset behind it."""
    quote, end = text[start], start + 1
    while (end := text.find(quote, end)) >= 0:
        if text[end + 1 : end + 2] != quote:
            return text[start + 1 : end].replace(quote * 2, quote), end + 1
        end += 2
    raise syntax_error(f"Unexpected end. The quote {quote} is not closed", text, start)
