"""The settings of a session with ZooKeeper, and of the store in it."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Acl(StrEnum):
    """Who may access the znodes of the store. The values are Flink's."""

    OPEN = "open"
    CREATOR = "creator"
    """Only clients that authenticate as their creator."""


class Credentials(Struct, frozen=True):
    """For SASL with DIGEST-MD5."""

    username: str
    password: str

    def __repr__(self) -> str:
        return f"Credentials({self.username!r}, '******')"


class ZookeeperSettings(Struct, frozen=True):
    """A store is identified by its `root` in an ensemble. All services of a cluster use the same.

    `quorum` is `host:port,host:port`. The server may grant another session timeout than requested.
    """

    quorum: str
    root: str = "/millstream/default"
    session_timeout: float = 60.0
    acl: Acl = Acl.OPEN
    credentials: Credentials | None = None

    def __post_init__(self) -> None:
        parts = self.root.split("/")
        if parts[0] or len(parts) < 2 or any(part in ("", ".", "..") for part in parts[1:]):
            raise ValueError(f"'{self.root}' is no path in ZooKeeper below its root: it looks like /millstream/cluster")
        if "/" in self.quorum or not self.quorum.strip():
            raise ValueError(f"'{self.quorum}' is no quorum of ZooKeeper: it looks like host:2181,host:2181")
        if self.acl is Acl.CREATOR and self.credentials is None:
            raise ValueError("the ACL 'creator' needs credentials: without them a created znode belongs to no client")
