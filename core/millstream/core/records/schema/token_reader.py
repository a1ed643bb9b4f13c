"""Reads the words of a type's text one by one. Errors name the place of the word that does not fit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from millstream.core.records.schema.errors import InvalidTypeError, TypeSyntaxError, syntax_error
from millstream.core.records.schema.tokens import Token, TokenKind, tokenized


class TokenReader:
    """A position in the words of one text."""

    __slots__ = ("_at", "_text", "_tokens")

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokenized(text)
        self._at = 0

    @property
    def next(self) -> Token:
        """The word that is to be read next."""
        return self._tokens[self._at]

    def error(self, cause: str, token: Token | None = None) -> TypeSyntaxError:
        """An error at this word, else at the next one."""
        return syntax_error(cause, self._text, (token or self.next).start)

    @contextmanager
    def at(self, token: Token) -> Iterator[None]:
        """Gives errors of types that are constructed inside the place of this word."""
        try:
            yield
        except TypeSyntaxError:
            raise
        except InvalidTypeError as error:
            raise self.error(str(error), token) from error

    def take(self, kind: TokenKind, expected: str | None = None) -> Token:
        """Reads a word of this kind; `expected` is what the error calls it."""
        token = self.next
        if token.kind is not kind:
            reserved = kind is TokenKind.NAME and token.kind is TokenKind.KEYWORD
            hint = " (a keyword: in backticks it is a name)" if reserved else ""
            raise self._unexpected(expected or kind.value, hint)
        self._at += 1
        return token

    def expect(self, keyword: str) -> None:
        """Reads this keyword."""
        if not self.skips(keyword):
            raise self._unexpected(f"the keyword '{keyword}'")

    def expect_mark(self, mark: str) -> None:
        """Reads this mark."""
        if not self.skips_mark(mark):
            raise self._unexpected(f"'{mark}'")

    def skips(self, *keywords: str) -> bool:
        """Reads these keywords if they are next, all of them or none."""
        ahead = self._tokens[self._at : self._at + len(keywords)]
        if len(ahead) < len(keywords) or not all(t.is_keyword(k) for t, k in zip(ahead, keywords, strict=True)):
            return False
        self._at += len(keywords)
        return True

    def skips_if_first(self, *keywords: str) -> bool:
        """Reads these keywords if the first of them is next; then the others have to follow."""
        if not self.skips(keywords[0]):
            return False
        for keyword in keywords[1:]:
            self.expect(keyword)
        return True

    def skips_mark(self, mark: str) -> bool:
        """Reads this mark if it is next."""
        if not self.next.is_mark(mark):
            return False
        self._at += 1
        return True

    def integers(self, most: int) -> list[int]:
        """Reads integers in parentheses, at most so many; none when there are no parentheses."""
        if not self.skips_mark("("):
            return []
        values = [self._integer()]
        while len(values) < most and self.skips_mark(","):
            values.append(self._integer())
        self.expect_mark(")")
        return values

    def _integer(self) -> int:
        token = self.take(TokenKind.INTEGER)
        if len(token.value.lstrip("0")) > 10 or int(token.value) >= 2**31:
            raise self.error(f"Invalid integer value {token}: it has more than 31 bits", token)
        return int(token.value)

    def _unexpected(self, expected: str, hint: str = "") -> TypeSyntaxError:
        if self.next.kind is TokenKind.END:
            return self.error(f"Unexpected end. Expected {expected}")
        return self.error(f"Expected {expected}, but found {self.next}{hint}")
