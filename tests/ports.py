"""Free ports for servers that start later than they are chosen, or that are stopped and started again.

They are held until the tests end, so that no other process takes one meanwhile.
"""

from __future__ import annotations

import atexit
import contextlib

from millstream.cli.cluster.ports import held_ports
from millstream.core.settings.configuration import Configuration

KEYS = ("rest.port", "dispatcher.rpc.port", "jobmanager.rpc.port", "resourcemanager.rpc.port")

_held = contextlib.ExitStack()
atexit.register(_held.close)


def free_ports() -> dict[str, int]:
    """One free port for each option."""
    chosen = _held.enter_context(held_ports(Configuration(dict.fromkeys(KEYS, 0))))
    return {key: chosen.value(key) for key in KEYS}


def free_port() -> int:
    """A free port."""
    return free_ports()["rest.port"]
