"""The certificate that a process shows to others of its cluster, and the authority by which it knows them.

It comes from the files of `security.ssl.internal.*` when that is enabled, else from the cluster's secret: an authority
is made from that, and signs a certificate. Both ends of a connection show one, so a process that has merely taken the
port of a service is not believed and is sent nothing, and TLS protects all that is said.

To make certificates takes 60 ms and 20 MB in each process, so one is kept beside the file of the secret, for this user
only and sealed with the secret. Services hand theirs to their slot workers in an option.
"""

from __future__ import annotations

import contextlib
import functools
import hmac
import os
import re
import ssl
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct

from millstream.core.errors import ConfigurationError
from millstream.core.files.directories import for_user_only
from millstream.core.services.cluster_secret import SECRET, SECRET_FILE, ClusterSecret, cluster_secret, read_private
from millstream.core.settings.configuration import Configuration

ENABLED = "security.ssl.internal.enabled"
CERTIFICATES = "security.cluster.secret-certificates"
CLUSTER_NAME = "millstream.cluster"
"""For which certificates from a secret are made, whatever the address of the process is."""
_HOSTS = (CLUSTER_NAME, "localhost", "127.0.0.1", "::1")
_DAYS = 3650
_LONGEST_NAME = 64  # in a certificate
_LEAST_LEFT = 365 * 86400.0  # seconds that a kept certificate has to count, else another one is made
_KEPT = re.compile(r"# ([0-9a-f]{64}) ([0-9]{1,12})\n((?:-----BEGIN [^-]+-----\n[^-]+-----END [^-]+-----\n){3})\Z")
_PEM = re.compile(r"-----BEGIN [^-]+-----\n[^-]+-----END [^-]+-----")


class Identity(Struct, frozen=True):
    """As PEM. `name`: for which the peer's certificate has to be made; None: for its address."""

    authority: bytes
    certificate: bytes
    key: bytes
    name: str | None = None


def identity(configuration: Configuration) -> Identity | None:
    """None: neither TLS nor a secret is configured. Raises ConfigurationError when what is cannot be used."""
    if configuration.boolean(ENABLED):
        key, certificate, authority = (_read(configuration, name) for name in ("key", "cert", "ca"))
        _check_pair(configuration)
        return Identity(authority, certificate, key)
    return identity_of_secret(configuration)


def identity_of_secret(configuration: Configuration) -> Identity | None:
    """By the secret alone; None: there is none."""
    if given := configuration.string(CERTIFICATES):
        return _of_text(given)
    secret = cluster_secret(configuration)
    if secret is None:
        return None
    file = "" if configuration.string(SECRET) else configuration.string(SECRET_FILE)
    return _of_text(_kept(secret, file))


def certificates_of_secret(configuration: Configuration) -> dict[str, object]:
    """Options for a child of this process, so that it need not make its own; none without a secret."""
    if configuration.boolean(ENABLED):
        return {}
    own = identity(configuration)
    return {} if own is None else {CERTIFICATES: (own.authority + own.certificate + own.key).decode()}


def server_context(own: Identity) -> ssl.SSLContext:
    """For servers that show the certificate, and take any client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:  # for this user only; Python reads certificates from files alone
        file.write(own.certificate + own.key)
        file.flush()
        context.load_cert_chain(file.name)
    return context


def client_context(own: Identity) -> ssl.SSLContext:
    """For clients that believe servers of the authority. The server's name is `Identity.name`."""
    return ssl.create_default_context(cadata=own.authority.decode())


def _of_text(text: str) -> Identity:
    parts = [f"{part}\n".encode() for part in _PEM.findall(text)]
    if len(parts) != 3:
        raise ConfigurationError(f"option '{CERTIFICATES}': expected an authority, a certificate and a key, as PEM")
    return Identity(parts[0], parts[1], parts[2], CLUSTER_NAME)


def _kept(secret: ClusterSecret, secret_file: str) -> str:
    """The certificates that are kept beside the secret's file, made when they are missing or of another secret."""
    if not secret_file:
        return _made(secret.authority_number())
    path = Path(f"{secret_file}.pem")
    with contextlib.suppress(ConfigurationError):
        kept = _KEPT.match(read_private(path, SECRET_FILE))
        if kept is not None:
            seal, until, text = kept.groups()
            is_ours = hmac.compare_digest(seal, secret.seal("certificates", f"{until} {text}".encode()))
            if is_ours and int(until) - time.time() > _LEAST_LEFT:
                return text
    until, text = str(round(time.time() + _DAYS * 86400)), _made(secret.authority_number())
    content = f"# {secret.seal('certificates', f'{until} {text}'.encode())} {until}\n{text}"
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    with contextlib.suppress(OSError):  # the secret may lie where only root writes: each process has its own then
        with open(partial, "w", opener=for_user_only) as file:
            file.write(content)
        os.replace(partial, path)
    return text


@functools.lru_cache(maxsize=8)
def _made(number: int) -> str:
    from millstream.core.services.authority import Authority

    authority = Authority.of_number(number)
    certificate, key = authority.certificate(quote(user_name(), safe="")[:_LONGEST_NAME], _HOSTS, _DAYS, at_once=True)
    return (authority.to_pem()[0] + certificate + key).decode()


def user_name(user: int | None = None) -> str:
    """The name of a user, by default the one under which this process runs; the number where there is no name."""
    number = os.geteuid() if user is None else user
    try:
        import pwd

        return pwd.getpwuid(number).pw_name or str(number)
    except (ImportError, KeyError):
        return str(number)


def _read(configuration: Configuration, name: str) -> bytes:
    key = f"security.ssl.internal.{name}"
    path = configuration.string(key)
    if not path:
        raise ConfigurationError(f"option '{key}' is needed when {ENABLED} is true")
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"option '{key}': cannot read {path}: {error.strerror}") from error


def _check_pair(configuration: Configuration) -> None:
    """Says what is wrong with the files; gRPC only says that it cannot listen."""
    certificate, key = (configuration.string(f"security.ssl.internal.{name}") for name in ("cert", "key"))
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except (ssl.SSLError, ValueError) as error:
        raise ConfigurationError(
            f"security.ssl.internal.cert ({certificate}) and security.ssl.internal.key ({key}) have to be a PEM "
            f"certificate and its unencrypted private key: {getattr(error, 'reason', None) or error}"
        ) from error
