"""The logical model of a snapshot: the content of `_metadata.json`, whatever the encoding of the state files.

Values only: nothing here reads or writes. Types are kept as JSON (`types_json`), so that a service can inspect a
snapshot without importing the user's classes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any
from urllib.parse import unquote

from msgspec import Struct, field

from millstream.core.jobs.ids import JobId, OperatorId
from millstream.core.jobs.state_kinds import StateKind as StateKind

FORMAT_VERSION = 1
METADATA_FILE = "_metadata.json"

TypeJson = Mapping[str, Any]

_URI = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


class SnapshotKind(Enum):
    """Who triggers, owns and deletes a snapshot."""

    CHECKPOINT = "checkpoint"
    SAVEPOINT = "savepoint"


class ValueEncoding(Enum):
    """How values without a declared type are written in their binary column."""

    PICKLE = "pickle"


class TtlUpdate(Enum):
    """The accesses that extend the lifetime of an entry."""

    DISABLED = "disabled"
    ON_CREATE_AND_WRITE = "on-create-and-write"
    ON_READ_AND_WRITE = "on-read-and-write"


class TtlVisibility(Enum):
    """Whether an expired entry that still exists is returned."""

    NEVER_RETURN_EXPIRED = "never-return-expired"
    RETURN_EXPIRED_IF_NOT_CLEANED_UP = "return-expired-if-not-cleaned-up"


class TtlSettings(Struct, frozen=True):
    """The time-to-live that a state's `expires_at` column was written with."""

    ttl_ms: int
    update: TtlUpdate = TtlUpdate.ON_CREATE_AND_WRITE
    visibility: TtlVisibility = TtlVisibility.NEVER_RETURN_EXPIRED


class StateFile(Struct, frozen=True):
    """One file of a state, as one subtask wrote it.

    `path` is relative to the snapshot's folder, or an absolute URI when an earlier checkpoint wrote the file and
    shares it. Key groups are `key_group_start <= g < key_group_end`; both None for state that has no keys. With
    `inline`, the content is that, and no file exists under the path.
    """

    path: str
    subtask: int
    key_group_start: int | None
    key_group_end: int | None
    rows: int
    size: int
    checksum: str
    inline: bytes | None = None

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name != "inline")
        return f"StateFile({shown})"

    @property
    def key_groups(self) -> range | None:
        """The key groups that the file may hold."""
        if self.key_group_start is None or self.key_group_end is None:
            return None
        return range(self.key_group_start, self.key_group_end)

    @property
    def shared(self) -> bool:
        """Whether the file lies outside of the snapshot's folder."""
        return is_uri(self.path)


class StateSnapshot(Struct, frozen=True):
    """One state of an operator. A type is None when the kind has no such column; undeclared types are `pickled`."""

    name: str
    kind: StateKind
    key_type: TypeJson | None = None
    namespace_type: TypeJson | None = None
    value_type: TypeJson | None = None
    map_key_type: TypeJson | None = None
    encoding: ValueEncoding | None = None
    ttl: TtlSettings | None = None
    files: tuple[StateFile, ...] = ()


class OperatorSnapshot(Struct, frozen=True):
    """One operator and its states. `uid` is None when the program gave none: then only the id identifies it."""

    operator_id: OperatorId
    uid: str | None
    name: str
    parallelism: int
    max_parallelism: int
    states: tuple[StateSnapshot, ...] = ()
    finished: bool = False

    @property
    def holds_keyed_state(self) -> bool:
        """Whether its max parallelism is fixed."""
        return any(state.kind.keyed and state.files for state in self.states)


def enumerator_property(uid: str | None, operator_id: OperatorId) -> str:
    """The name of the snapshot's property with the state of a source's split enumerator."""
    return f"enumerator.{uid or operator_id}"


class SnapshotMetadata(Struct, frozen=True):
    """A snapshot without the content of its files."""

    version: int
    job_id: JobId
    job_name: str
    checkpoint_id: int
    kind: SnapshotKind
    created_ms: int
    operators: tuple[OperatorSnapshot, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)

    def files(self) -> Iterator[StateFile]:
        """Every file of every state, inline ones too."""
        for operator in self.operators:
            for state in operator.states:
                yield from state.files

    def shared_files(self) -> tuple[str, ...]:
        """The URIs of the files that other checkpoints may reference too: what a `SharedFileRegistry` counts."""
        return tuple(sorted({file.path for file in self.files() if file.shared and file.inline is None}))


def is_uri(path: str) -> bool:
    """Whether a path is absolute, with a scheme."""
    return _URI.match(path) is not None


def absolute_location(location: str) -> str:
    """Resolves a location of a user for other processes: a path is relative to this process's folder."""
    return location if is_uri(location) else local_path(os.path.expanduser(location))


def local_path(location: str) -> str:
    """The absolute path of a location that is no URI; after `file:` it is written as in one."""
    return os.path.abspath(unquote(location[5:]) if location.startswith("file:") else location)
