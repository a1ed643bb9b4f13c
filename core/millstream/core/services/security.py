"""Who may listen where, and the TLS credentials of gRPC traffic. Without TLS, only loopback is served."""

from __future__ import annotations

import ipaddress
import ssl
from pathlib import Path

import grpc

from millstream.core.errors import ConfigurationError
from millstream.core.settings.configuration import Configuration


def is_loopback(host: str) -> bool:
    """Whether the address can only be reached from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_listen(host: str, configuration: Configuration, secured_by: str, key: str) -> None:
    """Refuses an address other than loopback unless TLS is on or the user accepted the risk in so many words."""
    if is_loopback(host) or configuration.boolean(secured_by) or configuration.boolean("security.allow-insecure"):
        return
    raise ConfigurationError(
        f"{key}: refusing to listen on {host} without security: whoever reaches that port can run code here. "
        f"Set {secured_by}, or security.allow-insecure: true to accept that"
    )


def _read(configuration: Configuration, key: str) -> bytes:
    path = configuration.string(key)
    if not path:
        raise ConfigurationError(f"option '{key}' is needed when security.ssl.internal.enabled is true")
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


def server_credentials(configuration: Configuration) -> grpc.ServerCredentials | None:
    """Credentials that demand a client certificate of the same authority; None without TLS."""
    if not configuration.boolean("security.ssl.internal.enabled"):
        return None
    pair = (_read(configuration, "security.ssl.internal.key"), _read(configuration, "security.ssl.internal.cert"))
    _check_pair(configuration)
    return grpc.ssl_server_credentials(
        [pair], _read(configuration, "security.ssl.internal.ca"), require_client_auth=True
    )


def channel_credentials(configuration: Configuration) -> grpc.ChannelCredentials | None:
    """The client's side of the same; None without TLS."""
    if not configuration.boolean("security.ssl.internal.enabled"):
        return None
    return grpc.ssl_channel_credentials(
        _read(configuration, "security.ssl.internal.ca"),
        _read(configuration, "security.ssl.internal.key"),
        _read(configuration, "security.ssl.internal.cert"),
    )
