"""The folder that `millstream security init` fills: its user's alone, and so is every file in it.

authority.crt, authority.key    signs the certificates; the key is needed nowhere else
internal.crt, internal.key      of services and workers, and of programs that submit jobs
rest.crt, rest.key              of the REST API, and of commands
cluster.secret                  that all processes of the cluster share
tokens                          for the REST API, as `millstream security token` adds them
config.yaml                     uses all of these
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from millstream.core.errors import ConfigurationError, MillstreamError
from millstream.core.files.directories import for_user_only, private_folder
from millstream.core.services.cluster_secret import make_secret_file, new_secret
from millstream.core.settings.options.services import CLUSTER_SECRET_FILE, REST_AUTH_TOKENS_FILE

if TYPE_CHECKING:
    from millstream.core.services.authority import Authority

_HEAD = "# Written by `millstream security init`. Add where services are to listen, such as rest.bind-address.\n"


class SecurityFolder:
    """At a path that need not be there yet."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def fill(self, hosts: Sequence[str], days: int) -> Iterator[str]:
        """Writes what is missing and new certificates; prints what it does. Raises MillstreamError."""
        from millstream.core.services.authority import Authority

        private_folder(self._root.parent, self._root.name, option="DIR", is_shared=True)
        authority, is_new = self._authority(Authority)
        if is_new:
            certificate, key = authority.to_pem()
            self._write("authority.key", key)
            self._write("authority.crt", certificate)
            yield f"An authority: {self._root / 'authority.crt'}"
        for name in ("internal", "rest"):
            try:
                certificate, key = authority.certificate(f"millstream {name}", hosts, days)
            except ValueError as error:
                raise MillstreamError(f"no certificate can be made for {', '.join(hosts)}: {error}") from error
            self._write(f"{name}.key", key)
            self._write(f"{name}.crt", certificate)
            yield f"A certificate for {', '.join(hosts)}: {self._root / name}.crt"
        make_secret_file(self._root / "cluster.secret")
        self._write_missing("tokens", "# NAME ROLE SHA-256, a line for each; `millstream security token` adds them.\n")
        if self._write_missing("config.yaml", self._configuration()):
            yield f"A configuration that uses them: --configDir {self._root}"
        else:
            yield f"{self._root / 'config.yaml'} is left as it is"

    def _configuration(self) -> str:
        import yaml

        options: dict[str, object] = {
            CLUSTER_SECRET_FILE: str(self._root / "cluster.secret"),
            REST_AUTH_TOKENS_FILE: str(self._root / "tokens"),
        }
        for part in ("internal", "rest"):
            options[f"security.ssl.{part}.enabled"] = True
            options[f"security.ssl.{part}.cert"] = str(self._root / f"{part}.crt")
            options[f"security.ssl.{part}.key"] = str(self._root / f"{part}.key")
            options[f"security.ssl.{part}.ca"] = str(self._root / "authority.crt")
        return _HEAD + yaml.safe_dump({str(key): value for key, value in options.items()}, sort_keys=False)

    def _authority(self, kind: type[Authority]) -> tuple[Authority, bool]:
        certificate, key = self._root / "authority.crt", self._root / "authority.key"
        if not certificate.exists() and not key.exists():
            return kind.new(), True
        try:
            return kind.of(certificate.read_bytes(), key.read_bytes()), False
        except (OSError, ValueError, TypeError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise ConfigurationError(f"the authority in {self._root} cannot be used: {reason}") from error

    def _write(self, name: str, content: bytes) -> None:
        """In place of what was there, at once: a service that starts at the same time finds a whole file."""
        partial = self._root / f".{name}.partial"
        with open(partial, "wb", opener=for_user_only) as file:
            file.write(content)
        os.replace(partial, self._root / name)

    def _write_missing(self, name: str, content: str) -> bool:
        if (self._root / name).exists():
            return False
        self._write(name, content.encode())
        return True


def add_token(path: Path, name: str, role: str) -> str:
    """A new token, whose hash is added to the file. Raises MillstreamError when the name has one."""
    from millstream.core.services.cluster_secret import read_private
    from millstream.dispatcher.callers import Role
    from millstream.dispatcher.rest.tokens import OPTION, parse_tokens, token_line

    given = Role.named(role)
    assert given is not None, role
    if path.exists():
        known = {token.name for token in parse_tokens(read_private(path, OPTION), str(path))}
        if name in known:
            raise MillstreamError(f"there is a token of {name} in {path}: remove its line to give it another one")
    token = new_secret()
    line = token_line(name, given, token)
    try:
        with open(path, "a", opener=for_user_only) as file:
            file.write(line)
    except OSError as error:
        raise MillstreamError(f"cannot write {path}: {error.strerror}") from error
    return token
