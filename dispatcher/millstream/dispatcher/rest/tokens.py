"""The file of bearer tokens: a line for each with its name, its role and the SHA-256 of the token, in hexadecimal.

Tokens are long random texts, so their plain hash gives nothing away. The file is read again when it has changed:
a line that is removed is a token that does not count any more.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from pathlib import Path

from msgspec import Struct

from millstream.core.errors import ConfigurationError
from millstream.core.services.cluster_secret import read_private
from millstream.core.settings.options.services import REST_AUTH_TOKENS_FILE
from millstream.dispatcher.callers import GIVEN_ROLES, Role

OPTION = REST_AUTH_TOKENS_FILE
_LINE = re.compile(r"(\S{1,100})\s+(\S+)\s+([0-9a-fA-F]{64})\Z")


class Token(Struct, frozen=True):
    """One line."""

    name: str
    role: Role
    sha256: str

    def is_of(self, token: str) -> bool:
        """Whether this is the token."""
        return hmac.compare_digest(hashlib.sha256(token.encode()).hexdigest(), self.sha256)


class TokensFile:
    """The tokens as they are in the file now. A file that others may use is refused."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._seen: tuple[int, int, int, int] | None = None
        self._tokens: list[Token] = []

    def all(self) -> list[Token]:
        """Raises ConfigurationError when the file cannot be used."""
        try:
            found = os.stat(self._path)
        except OSError as error:
            raise ConfigurationError(f"option '{OPTION}': cannot read {self._path}: {error.strerror}") from error
        seen = (found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode)
        if seen != self._seen:
            self._tokens = parse_tokens(read_private(self._path, OPTION), str(self._path))
            self._seen = seen
        return self._tokens


def parse_tokens(text: str, where: str) -> list[Token]:
    """The lines that are neither empty nor begin with `#`."""
    tokens = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.match(line.strip())
        role = Role.named(match.group(2)) if match is not None else None
        if match is None or role is None:
            raise ConfigurationError(
                f"option '{OPTION}': line {number} of {where} is no token: a line has a name, one of "
                f"{', '.join(r.name.lower() for r in GIVEN_ROLES)}, and a SHA-256; `millstream security token` adds it"
            )
        tokens.append(Token(match.group(1), role, match.group(3).lower()))
    return tokens


def token_line(name: str, role: Role, token: str) -> str:
    """The line of a new token."""
    return f"{name} {role.name.lower()} {hashlib.sha256(token.encode()).hexdigest()}\n"
