"""Which splits readers were given since the checkpoints, so that those of lost readers can be handed out again. Pure.

Splits stay opaque bytes, as the enumerator sent them. What was sent before the enumerator's snapshot reached the reader
before the barrier, so it is part of that checkpoint; what was sent after it is not.
"""

from __future__ import annotations

from millstream.jobmanager.failover.topology import Subtask


class SplitAssignments:
    """The assignments after the latest completed checkpoint, by the checkpoint that they are first part of."""

    def __init__(self) -> None:
        self._since: dict[Subtask, list[bytes]] = {}
        self._captured: dict[int, dict[Subtask, list[bytes]]] = {}
        self.size = 0
        """Bytes of the splits that are remembered."""

    def assigned(self, reader: Subtask, splits: bytes) -> None:
        """The enumerator gave splits to a reader."""
        self._since.setdefault(reader, []).append(splits)
        self.size += len(splits)

    def captured(self, checkpoint_id: int) -> None:
        """The enumerators' states were taken for a checkpoint: it covers everything up to now, once it completes."""
        if self._since:
            self._captured[checkpoint_id] = self._since
            self._since = {}

    def completed(self, checkpoint_id: int) -> None:
        """The checkpoint is the restore point: what it covers is restored from it."""
        covered = [given for n, given in self._captured.items() if n <= checkpoint_id]
        self._captured = {n: given for n, given in self._captured.items() if n > checkpoint_id}
        self.size -= sum(len(splits) for given in covered for of_reader in given.values() for splits in of_reader)

    def take_back(self, reader: Subtask) -> list[bytes]:
        """What a reader was given since the latest completed checkpoint, in order; it counts as not given."""
        given = [*self._captured.values(), self._since]
        taken = [splits for part in given for splits in part.pop(reader, [])]
        self.size -= sum(map(len, taken))
        return taken
