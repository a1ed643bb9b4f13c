"""Who may listen where, and the TLS credentials of gRPC traffic. Without TLS, only loopback is served."""

from __future__ import annotations

import ipaddress

import grpc

from millstream.core.errors import ConfigurationError
from millstream.core.services.cluster_secret import SECRET_FILE
from millstream.core.services.identity import identity
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


def server_credentials(configuration: Configuration) -> grpc.ServerCredentials | None:
    """Credentials that demand a client certificate of the same authority; None without TLS."""
    own = identity(configuration)
    if own is None:
        return None
    return grpc.ssl_server_credentials([(own.key, own.certificate)], own.authority, require_client_auth=True)


def channel_credentials(
    configuration: Configuration,
) -> tuple[grpc.ChannelCredentials | None, list[tuple[str, str]]]:
    """The client's side of the same, and the options of a channel that go with it; None without TLS."""
    own = identity(configuration)
    if own is None:
        return None, []
    options = [] if own.name is None else [("grpc.ssl_target_name_override", own.name)]
    return grpc.ssl_channel_credentials(own.authority, own.key, own.certificate), options


def explained_handshake(details: str) -> str:
    """Why two ends do not come together that are secured in different ways; empty when that is not the reason."""
    advice = f"set '{SECRET_FILE}', or 'security.ssl.internal.*', for both ends alike"
    if "CERTIFICATE_VERIFY_FAILED" in details:
        return f"the process there has another secret or authority than this one, or is another program: {advice}"
    if "WRONG_VERSION_NUMBER" in details:
        return f"the process there does not use TLS: it has no cluster secret, or is another program: {advice}"
    if "failed to connect" in details and "Socket closed" in details:
        return f"the process there closes the connection, as one with another secret or authority does: {advice}"
    return ""
