"""Reference counts of the files that retained checkpoints share.

Pure: owned by the owner of the completed checkpoints. A file is released when the last checkpoint that references it
is unregistered, and never before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from millstream.core.snapshot.errors import SnapshotError


class SharedFileRegistry:
    """Reference counts of files by absolute URI."""

    def __init__(self) -> None:
        self._files: dict[int, frozenset[str]] = {}
        self._references: Counter[str] = Counter()

    def register(self, checkpoint_id: int, files: Iterable[str]) -> None:
        """Counts the files that a completed checkpoint references. Registering the same again changes nothing."""
        wanted = frozenset(files)
        known = self._files.get(checkpoint_id)
        if known is None:
            self._files[checkpoint_id] = wanted
            self._references.update(wanted)
        elif known != wanted:
            raise SnapshotError(f"checkpoint {checkpoint_id}", "is registered already, with other files")

    def unregister(self, checkpoint_id: int) -> tuple[str, ...]:
        """Removes a checkpoint, and returns the files that no other one references: those may be deleted."""
        released = []
        for path in self._files.pop(checkpoint_id, frozenset()):
            self._references[path] -= 1
            if not self._references[path]:
                del self._references[path]
                released.append(path)
        return tuple(sorted(released))

    def unused(self, files: Iterable[str]) -> tuple[str, ...]:
        """Those of the files that no registered checkpoint references: what an aborted checkpoint may delete."""
        return tuple(sorted({path for path in files if path not in self._references}))

    def references(self, path: str) -> int:
        """How many registered checkpoints reference a file."""
        return self._references.get(path, 0)

    @property
    def files(self) -> frozenset[str]:
        """The files that registered checkpoints reference."""
        return frozenset(self._references)

    @property
    def checkpoints(self) -> tuple[int, ...]:
        """The registered checkpoints, oldest first."""
        return tuple(sorted(self._files))

    def validate(self) -> None:
        """Checks that the counts are those of the registered checkpoints; for tests."""
        expected = Counter(path for files in self._files.values() for path in files)
        if expected != self._references:
            raise AssertionError(f"counted {self._references}, expected {expected}")
