"""Remembers the splits that were assigned to readers since the checkpoints, to reassign those of lost readers. Pure.

Splits are opaque bytes, as the enumerator sent them. A split that was sent before the enumerator's snapshot reached the
reader before the barrier, so it is part of that checkpoint; one that was sent after it is not.
"""

from __future__ import annotations

from millstream.jobmanager.failover.topology import Subtask


class SplitAssignments:
    """The assignments after the latest completed checkpoint, by the first checkpoint that includes them."""

    def __init__(self) -> None:
        self._since: dict[Subtask, list[bytes]] = {}
        self._captured: dict[int, dict[Subtask, list[bytes]]] = {}
        self.size = 0
        """The size of the remembered splits in bytes."""

    def assigned(self, reader: Subtask, splits: bytes) -> None:
        """Records splits that the enumerator assigned to a reader."""
        self._since.setdefault(reader, []).append(splits)
        self.size += len(splits)

    def captured(self, checkpoint_id: int) -> None:
        """Records that the enumerators' snapshots for a checkpoint were taken: it includes all assignments so far."""
        if self._since:
            self._captured[checkpoint_id] = self._since
            self._since = {}

    def completed(self, checkpoint_id: int) -> None:
        """Drops the assignments that a completed checkpoint includes, since they are restored from it."""
        covered = [given for n, given in self._captured.items() if n <= checkpoint_id]
        self._captured = {n: given for n, given in self._captured.items() if n > checkpoint_id}
        self.size -= sum(len(splits) for given in covered for of_reader in given.values() for splits in of_reader)

    def take_back(self, reader: Subtask) -> list[bytes]:
        """Removes and returns the splits assigned to a reader since the latest completed checkpoint, in order."""
        given = [*self._captured.values(), self._since]
        taken = [splits for part in given for splits in part.pop(reader, [])]
        self.size -= sum(map(len, taken))
        return taken
