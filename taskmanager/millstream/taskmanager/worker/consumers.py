"""The consumers of one output, and how they share its records.

If a consumer may change a record, each consumer gets a copy of its own. Copies are made here, before any consumer has
seen the batch; consumers that only read records, immediately or when they encode them, share theirs.
"""

from __future__ import annotations

from msgspec import Struct, field

from millstream.core.records.batches import Batch
from millstream.core.records.handover import Handover, RecordCopyError
from millstream.taskmanager.worker.operators.base import OperatorError
from millstream.taskmanager.worker.operators.output import Emit


class Consumers(Struct):
    """The consumers of an operator's records."""

    operator_name: str
    readers: list[Emit] = field(default_factory=list)
    """Read the records during the call."""
    encoders: list[Emit] = field(default_factory=list)
    """Keep the records to encode them later, and do not change them."""
    owners: list[Emit] = field(default_factory=list)
    """May change the records."""

    def emit(self, copies: bool) -> Emit:
        """Emits a batch to all consumers; without `copies`, all get the same records."""
        everyone = [*self.readers, *self.encoders, *self.owners]
        if len(everyone) == 1:
            return everyone[0]
        if not copies or not self.owners:
            return _to_all(everyone)
        if self.encoders:
            return self._to_owners(self.owners, [*self.readers, *self.encoders])
        return self._to_owners(self.owners[:-1], [*self.readers, self.owners[-1]])

    def _to_owners(self, owners: list[Emit], others: list[Emit]) -> Emit:
        """Copies for the owners first, because the last of the others may be an owner too."""
        name = self.operator_name
        handover = Handover()

        def emit(batch: Batch) -> None:
            try:
                copies = [handover.to_another(batch) for _ in owners]
            except RecordCopyError as error:
                raise OperatorError(name, error.record, error) from error
            for target, copied in zip(owners, copies, strict=True):
                target(copied)
            for target in others:
                target(batch)

        return emit


def _to_all(targets: list[Emit]) -> Emit:
    def emit(batch: Batch) -> None:
        for target in targets:
            target(batch)

    return emit
