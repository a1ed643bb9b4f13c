"""The kazoo client, configured to reconnect without a limit and within the session timeout."""

from __future__ import annotations

import logging
from typing import Any

from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

from millstream.core.store.zookeeper.settings import Acl, ZookeeperSettings

_RETRY = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0}
# Messages below this level contain requests with their content, including passwords.
_log = logging.getLogger("millstream.zookeeper")
_log.setLevel(logging.INFO)


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """Limits each server to its part of the session timeout, which a server that drops packets would exhaust."""

    def __init__(self, servers: int) -> None:
        super().__init__()
        self._servers = servers

    def create_connection(self, *args: Any, timeout: float, **options: Any) -> Any:
        return super().create_connection(*args, timeout=timeout / (self._servers + 1), **options)


def new_client(settings: ZookeeperSettings) -> KazooClient:
    """Creates a client that is not started yet."""
    sasl = None
    if settings.credentials is not None:
        sasl = {
            "mechanism": "DIGEST-MD5",
            "username": settings.credentials.username,
            "password": settings.credentials.password,
        }
    return KazooClient(
        hosts=settings.quorum,
        timeout=settings.session_timeout,
        handler=_Handler(settings.quorum.count(",") + 1),
        default_acl=CREATOR_ALL_ACL if settings.acl is Acl.CREATOR else OPEN_ACL_UNSAFE,
        sasl_options=sasl,
        connection_retry=dict(_RETRY),
        logger=_log,
    )
