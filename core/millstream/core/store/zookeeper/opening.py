"""Opens sessions with ZooKeeper; kazoo is imported only here, on demand."""

from __future__ import annotations

from millstream.core.errors import MillstreamError
from millstream.core.store.store import Store
from millstream.core.store.zookeeper.settings import ZookeeperSettings


def open_store(settings: ZookeeperSettings) -> Store:
    """Opens a session owned by the running loop, which connects at once. Raises MillstreamError without kazoo."""
    try:
        from millstream.core.store.zookeeper.store import ZookeeperStore
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "kazoo":
            raise
        raise MillstreamError(
            "ZooKeeper needs the package kazoo, which is not installed here: pip install 'millstream[zookeeper]'"
        ) from error
    return ZookeeperStore(settings)
