"""The ports of a local cluster: chosen where the configuration has 0, and held until the services listen on them.

Another process may take a port that was only found free before its daemon has come up, some seconds later. So it stays
bound, by a socket that never listens. Without SO_REUSEADDR it is bound only when no other socket has it bound,
listening or not; with the option set afterwards, the daemon, whose server sets it as well, may bind the same port
beside it.
"""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Iterator

from millstream.core.errors import MillstreamError
from millstream.core.services.leader_lookup import Role, endpoint_options
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.services import REST_BIND_ADDRESS, REST_PORT

LISTENING = (
    *(endpoint_options(role) for role in Role if role is not Role.REST),
    (REST_BIND_ADDRESS, REST_PORT),
)
_OWN_PORTS = range(12_000, 32_000)


@contextlib.contextmanager
def held_ports(configuration: Configuration) -> Iterator[Configuration]:
    """The configuration with a free port in place of each 0: no other process chooses one of them within.

    Raises when a port that was named is taken.
    """
    chosen: dict[str, int] = {}
    with contextlib.ExitStack() as held:
        for host_key, port_key in LISTENING:
            host, port = configuration.get(host_key), configuration.get(port_key)
            holder = held.enter_context(socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET))
            try:
                if port:
                    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    holder.bind((host, port))
                else:
                    _bind_any(holder, host)
            except OSError as error:
                where = f"{host}:{port} ({port_key})"
                raise MillstreamError(
                    f"cannot listen on {where}: {error.strerror}; choose another port with -D {port_key}=..., 0 for any"
                ) from error
            if port == 0:
                chosen[port_key] = holder.getsockname()[1]
        yield configuration.merged(chosen)


def _bind_any(holder: socket.socket, host: str) -> None:
    """Binds a free port, below those that the system hands out for connections if there is one."""
    for candidate in random.sample(_OWN_PORTS, 50):
        with contextlib.suppress(OSError):
            holder.bind((host, candidate))
            break
    else:
        holder.bind((host, 0))
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
