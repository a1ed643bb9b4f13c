"""The certificate that a process presents to others of its cluster, and the authority by which it verifies them.

It is read from the files of `security.ssl.internal.*` when that is enabled, otherwise derived from the cluster's
secret: an authority is derived from the secret, and signs a certificate. Both ends of a connection present one, so a
process that has only taken over the port of a service is rejected and receives nothing, and TLS protects all messages.

Creating certificates takes 60 ms and 20 MB in each process, so one is cached beside the file of the secret, for this
user only and authenticated with the secret. Services pass theirs to their slot workers in an option.
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
from millstream.core.settings.options import OptionKey
from millstream.core.settings.options.services import (
    CLUSTER_SECRET_CERTIFICATES,
    SSL_INTERNAL_CA,
    SSL_INTERNAL_CERT,
    SSL_INTERNAL_ENABLED,
    SSL_INTERNAL_KEY,
)

ENABLED = SSL_INTERNAL_ENABLED
CERTIFICATES = CLUSTER_SECRET_CERTIFICATES
CLUSTER_NAME = "millstream.cluster"
"""The host name in certificates derived from a secret, independent of the address of the process."""
_HOSTS = (CLUSTER_NAME, "localhost", "127.0.0.1", "::1")
_DAYS = 3650
_LONGEST_NAME = 64  # in a certificate
_LEAST_LEFT = 365 * 86400.0  # minimum validity of a cached certificate in seconds, otherwise it is replaced
_KEPT = re.compile(r"# ([0-9a-f]{64}) ([0-9]{1,12})\n((?:-----BEGIN [^-]+-----\n[^-]+-----END [^-]+-----\n){3})\Z")
_PEM = re.compile(r"-----BEGIN [^-]+-----\n[^-]+-----END [^-]+-----")


class Identity(Struct, frozen=True):
    """Certificate, key and authority as PEM. `name` is the host name expected of peers; None: their address."""

    authority: bytes
    certificate: bytes
    key: bytes
    name: str | None = None


def identity(configuration: Configuration) -> Identity | None:
    """Returns the configured identity; None without TLS and secret. Raises ConfigurationError if it is not valid."""
    if configuration.get(ENABLED):
        key, certificate, authority = (
            _read(configuration, option) for option in (SSL_INTERNAL_KEY, SSL_INTERNAL_CERT, SSL_INTERNAL_CA)
        )
        _check_pair(configuration)
        return Identity(authority, certificate, key)
    return identity_of_secret(configuration)


def identity_of_secret(configuration: Configuration) -> Identity | None:
    """Returns the identity derived from the secret; None without a secret."""
    if given := configuration.get(CERTIFICATES):
        return _of_text(given)
    secret = cluster_secret(configuration)
    if secret is None:
        return None
    file = "" if configuration.get(SECRET) else configuration.get(SECRET_FILE)
    return _of_text(_kept(secret, file))


def certificates_of_secret(configuration: Configuration) -> dict[str, object]:
    """Returns the options that pass the certificates to a child process; empty without a secret."""
    if configuration.get(ENABLED):
        return {}
    own = identity(configuration)
    return {} if own is None else {CERTIFICATES: (own.authority + own.certificate + own.key).decode()}


def server_context(own: Identity) -> ssl.SSLContext:
    """Returns the context of servers that present the certificate and accept any client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:  # for this user only; Python reads certificates only from files
        file.write(own.certificate + own.key)
        file.flush()
        context.load_cert_chain(file.name)
    return context


def client_context(own: Identity) -> ssl.SSLContext:
    """Returns the context of clients that trust servers of the authority. The host name is `Identity.name`."""
    return ssl.create_default_context(cadata=own.authority.decode())


def _of_text(text: str) -> Identity:
    parts = [f"{part}\n".encode() for part in _PEM.findall(text)]
    if len(parts) != 3:
        raise ConfigurationError(f"option '{CERTIFICATES}': expected an authority, a certificate and a key, as PEM")
    return Identity(parts[0], parts[1], parts[2], CLUSTER_NAME)


def _kept(secret: ClusterSecret, secret_file: str) -> str:
    """Returns the certificates cached beside the secret's file; creates them if they are missing or do not match."""
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
    with contextlib.suppress(OSError):  # the folder of the secret may be read-only: each process creates its own then
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
    """Returns the name of a user, by default that of this process; the number if the user has no name."""
    number = os.geteuid() if user is None else user
    try:
        import pwd

        return pwd.getpwuid(number).pw_name or str(number)
    except (ImportError, KeyError):
        return str(number)


def _read(configuration: Configuration, key: OptionKey[str]) -> bytes:
    path = configuration.get(key)
    if not path:
        raise ConfigurationError(f"option '{key}' is needed when {ENABLED} is true")
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"option '{key}': cannot read {path}: {error.strerror}") from error


def _check_pair(configuration: Configuration) -> None:
    """Raises an error that describes what is wrong with the files; gRPC reports only that it cannot listen."""
    certificate, key = (configuration.get(option) for option in (SSL_INTERNAL_CERT, SSL_INTERNAL_KEY))
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except (ssl.SSLError, ValueError) as error:
        raise ConfigurationError(
            f"security.ssl.internal.cert ({certificate}) and security.ssl.internal.key ({key}) have to be a PEM "
            f"certificate and its unencrypted private key: {getattr(error, 'reason', None) or error}"
        ) from error
