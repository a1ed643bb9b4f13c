"""The secret that all processes of a cluster share, and what is derived from it.

The secret itself is never sent. An authority is derived from it, the same for all who have it, and signs the
certificates of mutual TLS (`identity`), by which processes prove to each other that they have it. Tokens for the REST
API are derived from it as well.

The file is read each time a port or a connection is opened. It is rejected if other users can access it.
"""

from __future__ import annotations

import hmac
import os
import stat
import time
from pathlib import Path

from millstream.core.errors import ConfigurationError
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.services import CLUSTER_SECRET, CLUSTER_SECRET_FILE

SECRET_FILE = CLUSTER_SECRET_FILE
SECRET = CLUSTER_SECRET
TOKEN_SECONDS = 12 * 3600
_SHORTEST = 16
_LONGEST = 4096


class ClusterSecret:
    """Derives values from the secret. None of them reveals it."""

    def __init__(self, value: str) -> None:
        self._key = value.encode()

    def authority_number(self) -> int:
        """Returns the number from which the authority's private key is derived."""
        return int.from_bytes(hmac.digest(self._key, b"authority", "sha512"))

    def seal(self, what: str, content: bytes) -> str:
        """Returns a MAC of the content, which requires the secret."""
        return hmac.digest(self._key, b"%b\0%b" % (what.encode(), content), "sha256").hex()

    def rest_token(self, role: str, until: int | None = None) -> str:
        """Creates a bearer token for a role of the REST API, valid until then, in seconds since the epoch.

        The default is half a day. Creating a token requires the secret.
        """
        end = round(time.time() + TOKEN_SECONDS) if until is None else until
        return f"{role}.{end}.{self.seal('rest', f'{role} {end}'.encode())}"


def cluster_secret(configuration: Configuration) -> ClusterSecret | None:
    """Returns the configured secret, or None. Raises ConfigurationError when it cannot be used."""
    given = configuration.get(SECRET)
    if given:
        return ClusterSecret(_usable(given, f"option '{SECRET}'"))
    path = configuration.get(SECRET_FILE)
    if not path:
        return None
    return ClusterSecret(_usable(read_private(Path(path), SECRET_FILE).strip(), f"option '{SECRET_FILE}': {path}"))


def new_secret() -> str:
    """Creates a random secret of 256 bits, as text."""
    return os.urandom(32).hex()


def make_secret_file(path: Path) -> None:
    """Writes a new secret that only this user can ever read. An existing file is kept."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return
    with open(descriptor, "w") as file:
        file.write(f"{new_secret()}\n")


def read_private(path: Path, option: str) -> str:
    """Reads a private file. Raises ConfigurationError when other users can access it, or it cannot be read.

    A file of root may be readable by a group, since secrets are mounted into containers in this way.
    """
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_CLOEXEC)) as file:
            found = os.fstat(file.fileno())
            content = file.read(_LONGEST * 256 + 1)
    except OSError as error:
        raise ConfigurationError(f"option '{option}': cannot read {path}: {error.strerror}") from error
    if found.st_uid not in (0, os.geteuid()):
        raise ConfigurationError(
            f"option '{option}': {path} belongs to user {found.st_uid}, and this is user {os.geteuid()}"
        )
    group = stat.S_IRGRP if found.st_uid == 0 and os.geteuid() != 0 else 0
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO) & ~group:
        raise ConfigurationError(
            f"option '{option}': other users can access {path} (its mode is {stat.S_IMODE(found.st_mode):o}): run "
            "`chmod 600`, and replace it if others may have read it"
        )
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ConfigurationError(f"option '{option}': {path} is not a text file") from None


def _usable(text: str, where: str) -> str:
    if not _SHORTEST <= len(text) <= _LONGEST or not text.isprintable():
        raise ConfigurationError(
            f"{where}: a secret is one line of {_SHORTEST} to {_LONGEST} characters, as `openssl rand -hex 32` writes"
        )
    return text
