"""Free ports for servers that start later than they are chosen, or go away and come back.

They are below those that the system hands out for connections, any of which could take one of those meanwhile.
"""

from __future__ import annotations

from millstream.cli.cluster_start import with_ports
from millstream.core.configuration import Configuration

KEYS = ("rest.port", "dispatcher.rpc.port", "jobmanager.rpc.port", "resourcemanager.rpc.port")


def free_ports() -> dict[str, int]:
    """One for each option."""
    chosen = with_ports(Configuration(dict.fromkeys(KEYS, 0)))
    return {key: chosen.integer(key) for key in KEYS}


def free_port() -> int:
    """One."""
    return free_ports()["rest.port"]
