"""The secret that all processes of a cluster share, and how two of them show each other that they have it.

The secret itself never travels. Who calls sends a proof: the time, a number that is used once, its user's name, and an
HMAC over these and what is called. Who is called checks it, and answers with an HMAC over the number: so a process that
has merely taken the port of a service learns nothing that is of use, and is not believed. A proof holds for one method,
and for a minute. What is said afterwards is neither hidden nor sealed by this: against someone on the network between
both ends there is TLS.

The file is read each time a port or a connection is opened. It is used only when it is this user's alone.
"""

from __future__ import annotations

import functools
import hmac
import os
import stat
import time
from pathlib import Path
from urllib.parse import quote, unquote

from msgspec import Struct

from millstream.core.errors import ConfigurationError
from millstream.core.settings.configuration import Configuration

SECRET_FILE = "security.cluster.secret-file"
SECRET = "security.cluster.secret"
_VERSION = "1"
_VALID_SECONDS = 60.0
_SHORTEST = 16
_LONGEST = 4096


class ProofError(Exception):
    """Why a proof does not count; the words are for whoever sent it."""


class Proof(Struct, frozen=True):
    """What is sent with a call, and the number in it that the answer has to know."""

    header: str
    number: str


class ClusterSecret:
    """Makes and checks proofs. Its value is in no text that it makes."""

    def __init__(self, value: str) -> None:
        self._key = value.encode()

    def prove(self, what: str, now: float | None = None) -> Proof:
        """For one call; `what` names its method."""
        milliseconds = str(round((time.time() if now is None else now) * 1000))
        number, user = os.urandom(16).hex(), _user()
        header = " ".join(
            (_VERSION, milliseconds, number, user, self._seal("client", what, milliseconds, number, user))
        )
        return Proof(header, number)

    def check(self, header: str | None, what: str, now: float | None = None) -> tuple[str, str]:
        """The user's name, and what to answer. Raises ProofError."""
        if not header:
            raise ProofError(
                "this cluster has a secret, and the call does not prove that its sender knows it: set "
                f"'{SECRET_FILE}' to the file that the cluster's configuration names"
            )
        parts = header.split(" ")
        if len(parts) != 5 or parts[0] != _VERSION or not parts[1].isdecimal() or len(parts[1]) > 15:
            raise ProofError("the proof of the cluster's secret is malformed")
        _, milliseconds, number, user, seal = parts
        if not hmac.compare_digest(seal.encode(), self._seal("client", what, milliseconds, number, user).encode()):
            raise ProofError(
                f"the sender of the call has another secret than this cluster: set '{SECRET_FILE}' to the file that "
                "the cluster's configuration names"
            )
        apart = (time.time() if now is None else now) - int(milliseconds) / 1000
        if abs(apart) > _VALID_SECONDS:
            raise ProofError(
                f"the proof of the cluster's secret was made {abs(apart):.0f} s {'ago' if apart > 0 else 'from now'}, "
                f"and holds for {_VALID_SECONDS:g} s: do the clocks of both hosts agree?"
            )
        return unquote(user), self._seal("server", what, number)

    def confirms(self, answer: str | None, what: str, proof: Proof) -> bool:
        """Whether the answer to a call is from someone who has the secret."""
        expected = self._seal("server", what, proof.number)
        return answer is not None and hmac.compare_digest(answer.encode(), expected.encode())

    def rest_token(self, role: str) -> str:
        """A bearer token for REST that only those who have the secret can make, for one role."""
        return self._seal("rest", role)

    def _seal(self, *parts: str) -> str:
        return hmac.digest(self._key, "\0".join(parts).encode(), "sha256").hex()


def cluster_secret(configuration: Configuration) -> ClusterSecret | None:
    """The secret that the options name; None: there is none. Raises ConfigurationError when it cannot be used."""
    given = configuration.string(SECRET)
    if given:
        return ClusterSecret(_usable(given, f"option '{SECRET}'"))
    path = configuration.string(SECRET_FILE)
    if not path:
        return None
    return ClusterSecret(_usable(read_private(Path(path), SECRET_FILE).strip(), f"option '{SECRET_FILE}': {path}"))


def user_of(header: str) -> str:
    """The name in a proof that was checked."""
    return unquote(header.split(" ")[3])


def new_secret() -> str:
    """Of 256 bits, as text."""
    return os.urandom(32).hex()


def make_secret_file(path: Path) -> None:
    """Writes a new secret that nobody but this user can read at any time. One that is there stays."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return
    with open(descriptor, "w") as file:
        file.write(f"{new_secret()}\n")


def read_private(path: Path, option: str) -> str:
    """A file that others must not see. Raises ConfigurationError when they can, or it cannot be read.

    A file of root's may be readable by a group: that is how secrets are mounted into containers.
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
            f"option '{option}': others may use {path} (its mode is {stat.S_IMODE(found.st_mode):o}): `chmod 600` "
            "keeps it to its owner; if others had the time to read it, make a new one"
        )
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ConfigurationError(f"option '{option}': {path} is no text") from None


def _usable(text: str, where: str) -> str:
    if not _SHORTEST <= len(text) <= _LONGEST or not text.isprintable():
        raise ConfigurationError(
            f"{where}: a secret is one line of {_SHORTEST} to {_LONGEST} characters, as `openssl rand -hex 32` writes"
        )
    return text


@functools.cache
def _user() -> str:
    """The name under which this process runs, as one word."""
    try:
        import pwd

        name = pwd.getpwuid(os.geteuid()).pw_name
    except (ImportError, KeyError):
        name = str(os.geteuid())
    return quote(name, safe="")[:200] or "-"
