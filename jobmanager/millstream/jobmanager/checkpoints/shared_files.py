"""Which checkpoints refer to which files, so that a file is deleted with the last of them and not before.

Incremental checkpoints refer to files of the completed one that they build on. A checkpoint is registered before its
predecessor is removed, so a file that passes from one to the next is never without an owner.
"""

from __future__ import annotations

from collections.abc import Iterable

from millstream.jobmanager.checkpoints.model import CheckpointId


class SharedFiles:
    """Reference counts by file path."""

    def __init__(self) -> None:
        self._files: dict[CheckpointId, set[str]] = {}
        self._users: dict[str, int] = {}

    def register(self, checkpoint_id: CheckpointId, files: Iterable[str]) -> None:
        """The checkpoint refers to these files as well."""
        held = self._files.setdefault(checkpoint_id, set())
        for path in set(files) - held:
            held.add(path)
            self._users[path] = self._users.get(path, 0) + 1

    def unregister(self, checkpoint_id: CheckpointId) -> frozenset[str]:
        """The checkpoint is gone; answers the files that nothing refers to any more."""
        unused = set()
        for path in self._files.pop(checkpoint_id, set()):
            self._users[path] -= 1
            if self._users[path] == 0:
                del self._users[path]
                unused.add(path)
        return frozenset(unused)

    def unused(self, files: Iterable[str]) -> frozenset[str]:
        """Those of the files of a discarded snapshot that no registered checkpoint refers to."""
        return frozenset(path for path in files if path not in self._users)
