"""High availability of a service: the store, the lookup of leaders, and the storage of large content.

`high-availability.type` selects the implementation. Without high availability there is one instance of each service, at
its configured address; a store in memory is used, so that services differ only by `recovers`. Modules of the other
implementations are imported only with them: `python job.py` starts without them.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from millstream.core.errors import ConfigurationError
from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.graph import JobGraph
from millstream.core.services.leader_lookup import ConfiguredLeaders, LeaderLookup
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.services import (
    HA_TYPE,
    HEARTBEAT_TIMEOUT,
    ZOOKEEPER_CLIENT_ACL,
    ZOOKEEPER_CLIENT_SASL_PASSWORD,
    ZOOKEEPER_CLIENT_SASL_USERNAME,
    ZOOKEEPER_CLIENT_SESSION_TIMEOUT,
    ZOOKEEPER_PATH_ROOT,
    ZOOKEEPER_QUORUM,
)
from millstream.core.store.contents import Contents, MemoryContents
from millstream.core.store.leaders import StoredLeaders
from millstream.core.store.memory import MemoryStore
from millstream.core.store.store import Store

if TYPE_CHECKING:
    from millstream.core.snapshot.storage.uri_files import UriFiles

_KEY = "high-availability"


class HaType(StrEnum):
    """The values of `high-availability.type`."""

    NONE = "none"
    FILE = "file"
    ZOOKEEPER = "zookeeper"


class HighAvailability(Struct, frozen=True):
    """The high availability of one service. Owned by its loop; its opener closes the store."""

    store: Store
    leaders: LeaderLookup
    graphs: Contents[JobGraph]
    results: Contents[JobDetails]
    artifacts: Path | UriFiles | None = None
    """The storage that all dispatchers share; None: each has its own folder."""
    checkpoints: str = ""
    """The directory of checkpoints of jobs that set none; empty: they are in the job manager's memory."""
    recovers: bool = False
    """Whether other services take over the data of this one."""


def in_memory(store: Store, leaders: LeaderLookup) -> HighAvailability:
    """Returns the high availability of a service whose data ends with it."""
    return HighAvailability(store, leaders, MemoryContents(), MemoryContents())


def is_highly_available(configuration: Configuration) -> bool:
    """Whether leaders are looked up in a store instead of the configuration."""
    return configuration.get(HA_TYPE) != HaType.NONE


def open_high_availability(configuration: Configuration) -> HighAvailability:
    """Opens a session with the configured store, owned by the running loop. Raises ConfigurationError."""
    kind = HaType(configuration.get(HA_TYPE))
    if kind is HaType.NONE:
        return in_memory(MemoryStore().connect(), ConfiguredLeaders(configuration))
    from millstream.core.store.file_contents import FileContents
    from millstream.core.store.storage_dir import open_storage_dir
    from millstream.core.wire.contracts import JOB_DETAILS, JOB_GRAPH

    storage = open_storage_dir(configuration)
    store = open_store(configuration)
    return HighAvailability(
        store,
        StoredLeaders(store),
        FileContents(storage.graphs, JOB_GRAPH.to_bytes, JOB_GRAPH.from_bytes),
        FileContents(storage.results, JOB_DETAILS.to_bytes, JOB_DETAILS.from_bytes),
        storage.artifacts,
        storage.checkpoints,
        recovers=True,
    )


def leader_patience(configuration: Configuration) -> float:
    """Returns how many seconds clients wait for a dispatcher that does not respond, or for the next leader."""
    patience = configuration.get(HEARTBEAT_TIMEOUT)
    if is_highly_available(configuration):
        patience += configuration.get(ZOOKEEPER_CLIENT_SESSION_TIMEOUT)
    return patience


class FoundLeaders(Struct, frozen=True):
    """The lookup of a process that is no candidate itself, with its session."""

    lookup: LeaderLookup
    store: Store | None = None

    async def close(self) -> None:
        """Ends the session."""
        if self.store is not None:
            await self.store.close()


def open_leaders(configuration: Configuration) -> FoundLeaders:
    """Opens the configured lookup for the running loop. Raises ConfigurationError."""
    if not is_highly_available(configuration):
        return FoundLeaders(ConfiguredLeaders(configuration))
    store = open_store(configuration)
    return FoundLeaders(StoredLeaders(store), store)


def open_store(configuration: Configuration) -> Store:
    """Opens a session with the store of a cluster. Raises ConfigurationError."""
    if configuration.get(HA_TYPE) == HaType.FILE:
        from millstream.core.store.directory.store import DirectoryStore
        from millstream.core.store.storage_dir import store_folder

        return DirectoryStore(store_folder(configuration)).connect()
    from millstream.core.store.storage_dir import cluster_id
    from millstream.core.store.zookeeper.opening import open_store as open_zookeeper
    from millstream.core.store.zookeeper.settings import Acl, Credentials, ZookeeperSettings

    username = configuration.get(ZOOKEEPER_CLIENT_SASL_USERNAME)
    password = configuration.get(ZOOKEEPER_CLIENT_SASL_PASSWORD)
    root = f"{configuration.get(ZOOKEEPER_PATH_ROOT).rstrip('/')}/{cluster_id(configuration)}"
    try:
        settings = ZookeeperSettings(
            configuration.get(ZOOKEEPER_QUORUM),
            root,
            configuration.get(ZOOKEEPER_CLIENT_SESSION_TIMEOUT),
            Acl(configuration.get(ZOOKEEPER_CLIENT_ACL)),
            Credentials(username, password) if username else None,
        )
    except ValueError as error:
        raise ConfigurationError(f"options '{_KEY}.zookeeper.*': {error}") from error
    return open_zookeeper(settings)
