"""The TLS credentials of gRPC, and the rule that services without TLS listen only on loopback."""

from __future__ import annotations

import ipaddress

import grpc

from millstream.core.errors import ConfigurationError
from millstream.core.services.cluster_secret import SECRET_FILE
from millstream.core.services.identity import identity
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options import OptionKey
from millstream.core.settings.options.services import SECURITY_ALLOW_INSECURE


def is_loopback(host: str) -> bool:
    """Whether the address can only be reached from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_listen(host: str, configuration: Configuration, secured_by: OptionKey[bool], key: str) -> None:
    """Raises an error for addresses other than loopback, unless TLS or `security.allow-insecure` is enabled."""
    if is_loopback(host) or configuration.get(secured_by) or configuration.get(SECURITY_ALLOW_INSECURE):
        return
    raise ConfigurationError(
        f"{key}: refusing to listen on {host} without security: anyone who can reach that port can run code here. "
        f"Set {secured_by}, or security.allow-insecure: true to accept that"
    )


def server_credentials(configuration: Configuration) -> grpc.ServerCredentials | None:
    """Returns credentials that require a client certificate of the same authority; None without TLS."""
    own = identity(configuration)
    if own is None:
        return None
    return grpc.ssl_server_credentials([(own.key, own.certificate)], own.authority, require_client_auth=True)


def channel_credentials(
    configuration: Configuration,
) -> tuple[grpc.ChannelCredentials | None, list[tuple[str, str]]]:
    """Returns the credentials of clients, and the channel options that belong to them; None without TLS."""
    own = identity(configuration)
    if own is None:
        return None, []
    options = [] if own.name is None else [("grpc.ssl_target_name_override", own.name)]
    return grpc.ssl_channel_credentials(own.authority, own.key, own.certificate), options


def explained_handshake(details: str) -> str:
    """Returns why ends with different security settings cannot connect; empty when that is not the reason."""
    advice = f"set '{SECRET_FILE}', or 'security.ssl.internal.*', for both ends alike"
    if "CERTIFICATE_VERIFY_FAILED" in details:
        return f"the process at that address has a different secret or authority, or is another program: {advice}"
    if "WRONG_VERSION_NUMBER" in details:
        return (
            f"the process at that address does not use TLS: it has no cluster secret, or is another program: {advice}"
        )
    if "failed to connect" in details and "Socket closed" in details:
        return f"the process at that address closed the connection: its secret or authority may differ: {advice}"
    return ""
