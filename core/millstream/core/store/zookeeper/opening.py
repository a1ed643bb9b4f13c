"""Where a service gets its session with ZooKeeper: kazoo is loaded here, and only on request."""

from __future__ import annotations

from millstream.core.errors import MillstreamError
from millstream.core.store.store import Store
from millstream.core.store.zookeeper.settings import ZookeeperSettings


def open_store(settings: ZookeeperSettings) -> Store:
    """A session of the running loop's, which begins to connect at once. Raises MillstreamError without kazoo."""
    try:
        from millstream.core.store.zookeeper.store import ZookeeperStore
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "kazoo":
            raise
        raise MillstreamError(
            "ZooKeeper needs the package kazoo, which is not installed here: pip install 'millstream[zookeeper]'"
        ) from error
    return ZookeeperStore(settings)
