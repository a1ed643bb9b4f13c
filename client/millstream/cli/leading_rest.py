"""Where the REST API of the dispatcher that leads is, as recorded in the store of the cluster."""

from __future__ import annotations

import asyncio

from millstream.core.errors import UnreachableError
from millstream.core.services.leader_lookup import KnownLeader, Role, address_options
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.services import HA_TYPE
from millstream.core.store.high_availability import HaType, open_leaders

_PATIENCE = 10.0
_LOCAL_PATIENCE = 1.0  # the kernel reports a dead leader at once: else there is none for long
_LOOK_AGAIN = 0.1


def leading_rest(configuration: Configuration) -> dict[str, str]:
    """Its options. Waits a while for a leader; raises UnreachableError when there is none."""
    leader = asyncio.run(_look(configuration))
    return address_options(Role.REST, leader.address)


async def _look(configuration: Configuration) -> KnownLeader:
    leaders = open_leaders(configuration)
    loop = asyncio.get_running_loop()
    patience = _LOCAL_PATIENCE if configuration.get(HA_TYPE) == HaType.FILE else _PATIENCE
    deadline = loop.time() + patience
    try:
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    return await leaders.lookup.leader_of(Role.REST)
            except UnreachableError:
                if loop.time() > deadline:
                    raise
                await asyncio.sleep(_LOOK_AGAIN)
    except TimeoutError:
        raise UnreachableError(f"the store of the cluster does not respond within {patience:g} s") from None
    finally:
        await leaders.close()
