"""The synchronous part of a snapshot: everything that a task's operators hold, between two records.

Called on the task's thread. The result is read on another one while the task continues, and has to be released.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from millstream.core.jobs.state_kinds import StateKind
from millstream.core.records.batches import Barrier
from millstream.core.snapshot.tables.columns import dumps
from millstream.taskmanager.worker.checkpointing.in_flight import CapturedInFlight
from millstream.taskmanager.worker.state.capturing.captured import CapturedKeyedState, CapturedOperatorState

if TYPE_CHECKING:
    from millstream.taskmanager.worker.tasks.chain import OperatorChain


class CapturedOperator(Struct, frozen=True):
    """One operator's state; `folder` contains its files. Mutable contents are pickled."""

    operator_id: str
    folder: str
    name: str
    keyed: CapturedKeyedState | None = None
    operator: CapturedOperatorState | None = None
    elements: tuple[tuple[StateKind, tuple[bytes, ...]], ...] = ()
    in_flight: tuple[CapturedInFlight, ...] = ()


class CapturedTask(Struct, frozen=True):
    """All operators of a task, in the order of the chain."""

    operators: tuple[CapturedOperator, ...]

    def release(self) -> None:
        """Releases everything; may be called twice, on any thread."""
        for captured in self.operators:
            if captured.keyed is not None:
                captured.keyed.release()
            if captured.operator is not None:
                captured.operator.release()


def capture_chain(chain: OperatorChain, barrier: Barrier, incremental: bool) -> CapturedTask:
    """Captures every operator; if one fails, nothing stays captured."""
    number = barrier.checkpoint_id
    captured: list[CapturedOperator] = []
    try:
        for spec, operator in zip(chain.specs, chain.operators, strict=True):
            named = (spec.operator_id, spec.folder, operator.name)
            operator.prepare_snapshot(barrier)
            own = operator.elements(number).items()
            elements = tuple([(kind, tuple([dumps(element) for element in found])) for kind, found in own])
            without_keys = None if operator.operator_state is None else operator.operator_state.capture(number)
            captured.append(CapturedOperator(*named, None, without_keys, elements))
            if operator.keyed_state is not None:
                keyed = operator.keyed_state.capture(number, incremental)
                captured[-1] = replace(captured[-1], keyed=keyed)
    except BaseException:
        CapturedTask(tuple(captured)).release()
        raise
    return CapturedTask(tuple(captured))
