"""Which kinds of state an operator can take over from a snapshot: those that its task gives it a place for.

Known from the program alone, so it travels with the job graph: the job manager, which loads no user code, and the dry
run of a restore decide by it alike. Operators get just these places: see
`millstream.taskmanager.worker.operators.setup`.
"""

from __future__ import annotations

from millstream.core.jobs.plan.plan import FunctionSpec, OperatorSpec
from millstream.core.jobs.state_kinds import OPERATOR, StateKind
from millstream.datastream.functions.checkpointed import CheckpointedFunction


def held_state(spec: OperatorSpec) -> frozenset[StateKind]:
    """The kinds of state of an operator; records in flight, which every operator takes, are not among them."""
    is_checkpointed = isinstance(spec, FunctionSpec) and isinstance(spec.function, CheckpointedFunction)
    return spec.held_state() | (OPERATOR if is_checkpointed else frozenset())
