"""The terms of a service with standbys: it campaigns, leads until the leadership ends, and campaigns again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from millstream.core.store.store import Contest, Leadership, Store, StoreError

log = logging.getLogger(__name__)

_PAUSE = 1.0

StepDown = Callable[[], Awaitable[None]]


async def hold_office(
    store: Store, contest: Contest, address: str, lead: Callable[[Leadership], Awaitable[StepDown]]
) -> None:
    """Runs until cancelled. `lead` begins a term, and returns the callable that ends it.

    A service that cannot begin a term, because it cannot read its predecessor's data, resigns.
    """
    while True:
        leadership = await store.campaign(contest, address)
        log.info("elected as leader: %s, in epoch %d", contest, leadership.epoch)
        try:
            step_down = await lead(leadership)
        except Exception:
            log.exception("resigning as leader: %s", contest)
            await _resign(store, leadership)
            await asyncio.sleep(_PAUSE)
            continue
        try:
            await store.changed(contest, leadership.epoch)
            log.warning("no longer the leader: %s, in epoch %d", contest, leadership.epoch)
        finally:
            await step_down()


async def _resign(store: Store, leadership: Leadership) -> None:
    try:
        await store.resign(leadership)
    except StoreError as error:
        log.warning("%s: %s", leadership.contest, error)  # it ends with the session
