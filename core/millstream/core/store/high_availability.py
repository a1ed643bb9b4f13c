"""What a service needs to be one of several: the store, where leaders are found, and where large content lies.

`high-availability.type` selects one. Without high availability there is one of each service, found where the
configuration has it; a store in memory stands in, so that services see no difference but `recovers`. What only the
others need is loaded with them: `python job.py` starts without it.
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
    """One service's. Owned by its loop; its opener closes the store."""

    store: Store
    leaders: LeaderLookup
    graphs: Contents[JobGraph]
    results: Contents[JobDetails]
    artifacts: Path | UriFiles | None = None
    """What all dispatchers share, a folder or other storage; None: each has its own folder."""
    checkpoints: str = ""
    """Where those go of jobs that have no directory for them; empty: into the memory of the job manager."""
    recovers: bool = False
    """Whether others take up what this service leaves."""


def in_memory(store: Store, leaders: LeaderLookup) -> HighAvailability:
    """For a service that takes everything along when it ends."""
    return HighAvailability(store, leaders, MemoryContents(), MemoryContents())


def is_highly_available(configuration: Configuration) -> bool:
    """Whether leaders are found in a store, and not at the configured addresses."""
    return configuration.string(f"{_KEY}.type") != HaType.NONE


def open_high_availability(configuration: Configuration) -> HighAvailability:
    """A session with the configured store, of the running loop's. Raises ConfigurationError."""
    kind = HaType(configuration.string(f"{_KEY}.type"))
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
    """How many seconds clients wait for a dispatcher that does not respond, or for the next one."""
    patience = configuration.seconds("heartbeat.timeout")
    if is_highly_available(configuration):
        patience += configuration.seconds(f"{_KEY}.zookeeper.client.session-timeout")
    return patience


class FoundLeaders(Struct, frozen=True):
    """The look-up of a process that leads nothing itself, and the session that it takes."""

    lookup: LeaderLookup
    store: Store | None = None

    async def close(self) -> None:
        """Ends the session."""
        if self.store is not None:
            await self.store.close()


def open_leaders(configuration: Configuration) -> FoundLeaders:
    """As configured, for the running loop. Raises ConfigurationError."""
    if not is_highly_available(configuration):
        return FoundLeaders(ConfiguredLeaders(configuration))
    store = open_store(configuration)
    return FoundLeaders(StoredLeaders(store), store)


def open_store(configuration: Configuration) -> Store:
    """A session with the store of a cluster that has one. Raises ConfigurationError."""
    if configuration.string(f"{_KEY}.type") == HaType.FILE:
        from millstream.core.store.directory.store import DirectoryStore
        from millstream.core.store.storage_dir import store_folder

        return DirectoryStore(store_folder(configuration)).connect()
    from millstream.core.store.storage_dir import cluster_id
    from millstream.core.store.zookeeper.opening import open_store as open_zookeeper
    from millstream.core.store.zookeeper.settings import Acl, Credentials, ZookeeperSettings

    username, password = (configuration.string(f"{_KEY}.zookeeper.client.sasl.{n}") for n in ("username", "password"))
    root = f"{configuration.string(f'{_KEY}.zookeeper.path.root').rstrip('/')}/{cluster_id(configuration)}"
    try:
        settings = ZookeeperSettings(
            configuration.string(f"{_KEY}.zookeeper.quorum"),
            root,
            configuration.seconds(f"{_KEY}.zookeeper.client.session-timeout"),
            Acl(configuration.string(f"{_KEY}.zookeeper.client.acl")),
            Credentials(username, password) if username else None,
        )
    except ValueError as error:
        raise ConfigurationError(f"options '{_KEY}.zookeeper.*': {error}") from error
    return open_zookeeper(settings)
