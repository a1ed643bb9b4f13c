"""The files in the directory of a store, and the operations on them under its lock.

    lock                         held for each turn: all is decided, and made durable, under it
    elections                    the `Lines`
    entries/<kind>/<name>.entry  the version in a line of its own, then the value
    sessions/<id>                locked by the session as long as it lives
    new                          what the holder of the lock writes before it is renamed; never read

The first process that reads after a session has died updates the lines: its candidates are removed, and the next ones
become leaders. Used by one thread of each process.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from millstream.core.files.durable import make_folder, sync_folder
from millstream.core.jobs.ids import LeaderEpoch, new_id
from millstream.core.services.leader_lookup import KnownLeader
from millstream.core.store.directory.life import Life
from millstream.core.store.directory.lines import Lines, Standing
from millstream.core.store.directory.lock_files import is_locked, release_lock, take_lock
from millstream.core.store.directory.sealed_files import read_sealed, unseal, write_sealed
from millstream.core.store.store import (
    ABSENT,
    ConflictError,
    Contest,
    Entry,
    FencedError,
    Key,
    Kind,
    Leadership,
    StoreError,
)

_ENTRY = ".entry"


class StoreFolder:
    """All methods but `locked` and `look` are called under the lock. They raise OSError for errors of the disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.revision = 0
        """The revision of the lines that were read or written last."""
        self._lines = path / "elections"
        self._entries = path / "entries"
        self._sessions = path / "sessions"
        self._new = path / "new"
        self._parsed: tuple[bytes | None, Lines] = (None, Lines())

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Waits for the lock, and holds it within the block."""
        make_folder(str(self.path), 0o700)
        held = take_lock(self.path / "lock")
        try:
            yield
        finally:
            release_lock(held)

    # Entries

    def read(self, key: Key) -> Entry | None:
        """As `Entries.read`."""
        path = self._path_of(key)
        content = read_sealed(path)
        if content is None:
            return None
        version, _, value = content.partition(b"\n")
        return Entry(value, int(version))

    def replace(self, key: Key, value: bytes | None, expected: int, under: Leadership) -> int:
        """As `Entries.write`, and as `remove` with None."""
        leader = self.leader(under.contest)
        if leader is None or leader.epoch != under.epoch:
            raise FencedError(under)
        entry = self.read(key)
        if (entry.version if entry is not None else ABSENT) != expected:
            raise ConflictError(key, expected)
        path = self._path_of(key)
        if value is None:
            path.unlink(missing_ok=True)
            sync_folder(str(path.parent))
            return ABSENT
        write_sealed(path, b"%d\n%b" % (expected + 1, value), by_way_of=self._new)
        return expected + 1

    def names(self, kind: Kind) -> list[str]:
        """As `Entries.names`."""
        found = (name.removesuffix(_ENTRY) for name in os.listdir(self._entries / kind) if name.endswith(_ENTRY))
        return sorted(re.sub(r"\+(.)", lambda letter: letter[1].upper(), name) for name in found)

    def _path_of(self, key: Key) -> Path:
        """Returns the path of an entry. Capital letters are escaped, since some file systems ignore case."""
        return self._entries / key.kind / (re.sub("[A-Z]", lambda letter: f"+{letter[0].lower()}", key.name) + _ENTRY)

    # Leaders

    def leader(self, contest: Contest) -> KnownLeader | None:
        """As `Elections.leader`."""
        leader = self.settle().leader(contest)
        return KnownLeader(leader.address, leader.epoch) if leader is not None else None

    def candidates(self, contest: Contest) -> list[str]:
        """As `Elections.candidates`."""
        return [standing.address for standing in self.settle().standings if standing.contest == contest]

    def enter(self, standing: Standing) -> LeaderEpoch | None:
        """Adds the candidate to the end of its line; returns the same as `epoch_of`."""
        entered = self._change(lambda lines: lines.with_last(standing)).of(standing.candidate)
        return entered.epoch if entered is not None else None

    def epoch_of(self, candidate: str) -> LeaderEpoch | None:
        """Returns the candidate's epoch if it is the leader, `ANY_EPOCH` while it waits, None if it was removed."""
        found = self.settle().of(candidate)
        return found.epoch if found is not None else None

    def leave(self, candidate: str) -> None:
        """Removes the candidate, whether it leads or not."""
        self._change(lambda lines: lines.without(candidate))

    def resign(self, leadership: Leadership) -> None:
        """As `Elections.resign`."""
        leader = self.settle().leader(leadership.contest)
        if leader is not None and leader.epoch == leadership.epoch:
            self.leave(leader.candidate)

    def settle(self) -> Lines:
        """Returns the current lines, without candidates of dead sessions."""
        return self._change(lambda lines: lines)

    def _change(self, change: Callable[[Lines], Lines]) -> Lines:
        stored = self._stored(read_sealed(self._lines))
        lines = change(stored.without_sessions(self._dead(stored))).settled()
        if lines != stored:
            lines = lines.revised()
            write_sealed(self._lines, lines.to_bytes(), by_way_of=self._new)
        self.revision = lines.revision
        return lines

    def _stored(self, content: bytes | None) -> Lines:
        if content != self._parsed[0]:
            self._parsed = content, Lines.from_bytes(content)
        return self._parsed[1]

    # Sessions

    def begin(self) -> Life:
        """Begins a session. Creates missing folders, and deletes files of dead sessions."""
        for folder in (self._sessions, *(self._entries / kind for kind in Kind)):
            make_folder(str(folder), 0o700)
        for left_over in self._sessions.iterdir():
            if not is_locked(left_over):
                left_over.unlink(missing_ok=True)
        return Life(self._sessions / new_id())

    def look(self) -> tuple[bytes, frozenset[str]]:
        """Returns a value that differs from the last one if leaders may have changed. Needs no lock; never blocks.

        The state may not be durable yet: a process that acts on it reads again under the lock.
        """
        try:
            raw = self._lines.read_bytes()
            return raw, self._dead(self._stored(unseal(self._lines, raw)))
        except FileNotFoundError:
            return b"", frozenset()
        except StoreError:
            return raw, frozenset()

    def _dead(self, lines: Lines) -> frozenset[str]:
        return frozenset(session for session in lines.sessions() if not is_locked(self._sessions / session))
